// Package filetrust tells whether somebody else can change what a path leads to, as sshd and sudo do before they believe a file.
//
// # Owns
//
// The walk from the root to the file: each folder on the way, each symbolic link and each folder on the way to its target, and the file itself must
// belong to root or to the user of this process, and nobody else may write to it.
//
//   - In a folder with the sticky bit, such as /tmp, others may make files and cannot replace those of root and of this user: what lies in there is judged by
//     its own owner, if the folder is root's or this user's.
//   - Group counts as others: members come and go. With POSIX access lists, the mode's group bits are the most that a list grants.
//   - What lies on a read-only mount cannot be written through it, whatever its mode says: a ConfigMap's volume is such a folder. Its owner counts.
//
// # Does not own
//
// What the file is for, and what is done when it is not trusted.
//
// # Failure model
//
// The walk starts at the root and believes nothing below a folder that it has not looked at, so that what it found trusted stays so: only root and this
// user can change it. Of several weaknesses the one nearest to the file is reported. All functions are safe for concurrent use.
package filetrust
