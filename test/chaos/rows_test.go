package chaos_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

// sign is how it is known that a fault has struck.
type sign int

const (
	exits sign = iota // an incarnation ended
	fails             // a call of the event did not succeed
	works             // it was called, and nothing ended
	clash             // what it wanted was left out for a conflict
	empty             // an answer was of no use: one that can only carry updates loses them, another is invalid
)

// row is a fault of the matrix.
type row struct {
	name string
	// action is what the plugin does at the moment. Empty: the fault comes from outside or from the start.
	action string
	// start is what the plugin does before its handshake, once it has been killed.
	start string
	// strike comes from outside right before the pods that meet the fault. Nil for actions.
	strike func(w *world)
	sign   sign
	hasty  bool
	extra  string
	// senseless says why the fault cannot meet the moment; "" if it can.
	senseless func(moment string) string
	// root says that only root can cause it.
	root bool
	// possible says whether it can be caused on this machine; nil: everywhere. Such a fault is no part of the sample.
	possible func() bool
	// binary is another build of the supervisor; nil: the usual one.
	binary func(tb testing.TB) string
	// check looks for what the fault must have left; nil: nothing more.
	check func(w *world)
	// class is the class of the pods that meet it; empty: any.
	class string
	// prepare changes the folder of the supervisor before it starts.
	prepare func(t *testing.T, dir string)
}

func rows() []row {
	down := func(moment string) string { // the fault keeps the plugin away: it meets every event and is met by no call
		if !isEvent(moment) {
			return "a plugin that is down is not called"
		}
		return ""
	}
	answers := func(moment string) string { // the fault is in an answer
		switch moment {
		case "CreateContainer", "UpdateContainer", "StopContainer", "Synchronize":
			return ""
		}
		return "the answer to it has no room for that"
	}
	contested := func(moment string) string {
		switch moment {
		case "CreateContainer", "UpdateContainer":
			return ""
		}
		return "no other team's plugin answers it"
	}
	started := func(moment string) string {
		if !isEvent(moment) {
			return "the runtime takes updates only from plugins that are in service"
		}
		return ""
	}
	short := func(what string) string { return "timeouts: {default: " + ms(300) + ", " + what + "}" }
	list := []row{
		{name: "killed in the call", action: "kill", sign: exits},
		{name: "killed right before", strike: killed, sign: exits, senseless: down},
		{name: "killed for want of memory", action: "eat:1024", sign: exits, extra: "resources: {limits: {memory: 128Mi}}", root: true, possible: memoryLimits},
		{name: "abort", action: "abort", sign: exits},
		{name: "panic", action: "panic", sign: exits},
		{name: "exit with code 0", action: "exit:0", sign: exits},
		{name: "hang", action: "hang", sign: exits, hasty: true, extra: short("synchronize: " + ms(500) + ", configure: " + ms(500))},
		{name: "stopped and not continued", action: "stop", sign: exits, hasty: true, extra: short("synchronize: " + ms(500) + ", configure: " + ms(500))},
		{name: "stopped and continued", action: "pause:" + ms(450), sign: fails, hasty: true, extra: short("synchronize: "+ms(300)+", configure: "+ms(300)) + "\n  overdueAfter: " + ms(5000)},
		{name: "slow by nine tenths of its time", action: "slow:" + ms(270), sign: works, hasty: true},
		{name: "an error", action: "error:no", sign: fails},
		{name: "the error of a context", action: "deadline", sign: fails},
		{name: "a wrong handshake", start: "garbage", sign: exits, senseless: down},
		{name: "a wrong protocol version", start: "version", sign: exits, senseless: down},
		{name: "killed at the start", start: "kill", sign: exits, senseless: down},
		{name: "exit at the start", start: "exit:3", sign: exits, senseless: down},
		{name: "hang at the start", start: "hang", sign: exits, senseless: down, extra: short("start: " + ms(1000))},
		{name: "garbage on the connection", action: "garbage", sign: exits},
		{name: "half a frame on the connection", action: "half", sign: exits, hasty: true, extra: short("synchronize: " + ms(500) + ", configure: " + ms(500))},
		{name: "the connection closed", action: "close", sign: exits},
		{name: "an answer too large", action: "oversize", sign: fails, hasty: true, extra: short("synchronize: " + ms(500) + ", configure: " + ms(500))},
		{name: "an update of a foreign container", action: "foreign:" + stranger(), sign: works, senseless: answers},
		{name: "empty entries in the answer", action: "empty", sign: empty, senseless: answers},
		{name: "a conflict with another team", action: "conflict", sign: clash, senseless: contested, class: "all"},
		{name: "a flood of updates", action: "updates:500", sign: works, senseless: started},
		{name: "an update from inside the handler", action: "inside", sign: works, senseless: started},
		{name: "a flood of output", action: "flood:20000", sign: works, extra: "timeouts: {default: 1500ms}"},
		{name: "leaked descriptors", action: "fdleak:200", sign: works},
		{name: "a child that holds the output", action: "fork", sign: exits},
		{name: "its folder deleted", strike: unfolder, sign: exits, senseless: down},
		{name: "the clock jumps", action: "clock", sign: works, possible: func() bool { return true }, binary: harness.SupervisorWithJumpingClock, check: clockJumped},
		{name: "a full disk below the state", action: "none", sign: works, prepare: fullDisk, root: true},
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		list = append(list, row{name: "an error with status " + c.String(), action: "status:" + c.String(), sign: fails})
	}
	return list
}
