// Package docs holds no code, only tests that run the commands of README.md and of the manuals in docs/, as a reader would, and compare what they print with what is shown.
//
// Each page is run from top to bottom in a folder of its own, below which /etc/nri-supervisor, /opt and the like are found: nothing of the machine is changed. `sudo` does
// nothing, and a simulated runtime is there. Programs that need a cluster, a systemd or an hour are stand-ins: they check what they are asked against the files that are delivered, do on
// the simulated node what would come of it, and refuse all else. There is no way to leave a block out. A fenced block of the language
//
//   - sh is a script: it must succeed.
//   - console has lines that begin with "$ ", which must succeed, each followed by what it prints: … stands for what varies, and on a line of its own for any number of lines.
//     A command without output is only run.
//   - any other is no command, and nothing in it may look like one. A block must have a language, and commands must stand in such blocks: a block that is only indented, is quoted, stands between ~~~
//     or is HTML is refused.
//
// Commands in the text, `nri-supervisor …`, are read by the command line's own parser; that test is in cmd/nri-supervisor.
//
// What a reader does not see is in comments of HTML, which begin with "test:":
//
//	<!-- test: file PATH -->           the next block is written to the file, below the page's folder unless PATH is absolute
//	<!-- test: exit N -->              the last command of the next block exits with N
//	<!-- test: background -->          the next block goes on beside the following ones, and is ended with the page
//	<!-- test: service -->             the same for "nri-supervisor run", without a block
//	<!-- test: interrupt: WHAT -->     the next block is one command that goes on until it is interrupted, which is done when it has printed that, or when a file is there that it matches, if it has a slash
//	<!-- test: meanwhile: NAMESPACE/CONTAINER -->  while it goes on, the runtime creates such containers, each in a new pod
//	<!-- test: end -->                 ends what goes on in the background
//	<!-- test: checkout -->            goes to a copy of the repository
//	<!-- test: setup (a script in the following lines) -->
//	<!-- test: ready PLUGIN… -->       waits until the service says that the plugins are in service
//	<!-- test: pod NAMESPACE/POD/CONTAINER KEY=VALUE… -->  the runtime creates a container, in a pod with these labels
//
// The tests that run the pages have the build tag manuals: `make manuals`. Those about their form and links have none.
//
// In a setup, $REPO is the checkout, and the programs of the tree lie in $PROGRAMS.
package docs
