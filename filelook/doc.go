// Package filelook looks at files whose file system may never answer, such as that of a server of FUSE or NFS that is gone.
//
// # Owns
//
// The goroutines in which looks are made, one for each path at most, the order in which a mount of a file system with a server is first looked at by another process (Looks.First), and the mounts that
// are known not to answer by now: what lies on one of them is not looked at again until the look that found that out has ended, or the mount is gone.
//
// # Does not own
//
// What is looked for, and what is done when there is no answer.
//
// # Failure model
//
// A look that exceeds Limit ends with a *SilentError for who asked. Its goroutine stays, with a thread, until the kernel gives the system call up; it is not begun again meanwhile, so that there are
// never more of these than paths that were asked for, and usually one for each mount. A path is walked folder by folder, so that it is known which mount does not answer; a mount that is the
// root itself is never held against other paths. A thread that looks takes no signal that the process is sent.
//
// A thread that waits for a server of FUSE which has taken its request cannot be killed, and its process does not end before it. So Looks.First asks each such mount before this process does, unless it has
// answered within the last second; what answers that and not the look itself still holds the process.
//
// All functions are safe for concurrent use.
package filelook
