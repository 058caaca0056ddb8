package state_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// TestMain lets the test binary play a supervisor that gets killed.
func TestMain(m *testing.M) {
	switch role, dir := os.Getenv("STATE_TEST_ROLE"), os.Getenv("STATE_TEST_DIR"); role {
	case "":
		os.Exit(m.Run())
	case "writer":
		playWriter(dir)
	case "full disk":
		playFullDisk(dir)
	default:
		panic("unknown role " + role)
	}
}

func child(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "STATE_TEST_ROLE="+role, "STATE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// playWriter puts records for ever, and says which ones are confirmed.
func playWriter(dir string) {
	db, loaded := state.Open(dir, state.Options{})
	if loaded.Warning != "" {
		fmt.Println("warning", loaded.Warning)
	}
	for n := len(loaded.Records); ; n++ {
		db.Put(record(n))
		if n%7 == 0 {
			if err := db.Flush(context.Background()); err != nil {
				panic(err)
			}
			fmt.Println(n)
		}
	}
}

func TestWhatWasConfirmedSurvivesAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 5 {
		cmd := child(t, "writer", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		confirmed := -1
		lines := bufio.NewScanner(out)
		for i := 0; lines.Scan(); i++ {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Errorf("round %d: the writer says %q", round, lines.Text())
				break
			}
			confirmed = n
			if i == 3+round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the writer ended by itself")
		}
		db, loaded := open(t, dir, state.Options{})
		if loaded.Warning != "" || len(loaded.Records) <= confirmed {
			t.Errorf("round %d: found %d records, %q; %d were confirmed", round, len(loaded.Records), loaded.Warning, confirmed+1)
		}
		for n, r := range loaded.Records {
			if r.Container != record(n).Container {
				t.Fatalf("round %d: record %d is %s", round, n, r.Container)
			}
		}
		if err := db.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// playFullDisk limits the size of its files, fills the state beyond that, and
// lifts the limit again.
func playFullDisk(dir string) {
	signal.Ignore(syscall.SIGXFSZ)
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	full := syscall.Rlimit{Cur: 256 << 10, Max: limit.Max}
	check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))

	reported := make(chan error, 100)
	db, _ := state.Open(dir, state.Options{OnError: func(err error) { reported <- err }})
	for n := range 2000 {
		db.Put(record(n))
	}
	fmt.Println("full:", db.Flush(context.Background()) != nil)
	fmt.Println("reported:", <-reported)
	for n := range 1000 {
		db.Delete("pod", record(n).Container)
	}
	check(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	check(db.Flush(context.Background()))
	check(db.Close(context.Background()))
	fmt.Println("errors counted:", db.Stats().Errors > 0)
}

func TestAFullDiskIsReportedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 100} {
		dir := t.TempDir()
		if before > 0 {
			filled(t, dir, before)
		}
		out, err := child(t, "full disk", dir).Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		said := string(out)
		if !strings.Contains(said, "full: true") || !strings.Contains(said, "file too large") || !strings.Contains(said, "errors counted: true") {
			t.Errorf("it said %s", said)
		}
		_, loaded := open(t, dir, state.Options{})
		if got := len(loaded.Records); got != 1000 || loaded.Warning != "" {
			t.Errorf("found %d records, want 1000; %q", got, loaded.Warning)
		}
	}
}
