package main

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// TestMain makes this test binary what the program is: it calls itself as a helper.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 0 && args[0] == helperCommand {
		os.Exit(isolation.RunHelper(args[1:]))
	}
	if args := os.Args[1:]; len(args) == 2 && args[0] == listenCommand {
		listenOnly(args[1])
	}
	os.Exit(m.Run())
}

// listenCommand makes this test binary a process that listens on a socket, says so, and answers nobody until it is killed.
const listenCommand = "test-listen"

func listenOnly(socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	for err == nil {
		_, err = l.Accept()
	}
}
