package main

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
)

// entry is one log line: a constant message and typed fields.
type entry struct {
	level  zapcore.Level
	msg    string
	fields []zap.Field
}

// logTo returns a sink that writes each event as one line.
func logTo(log *zap.Logger) supervisor.Sink {
	return func(ev supervisor.Event) {
		e := line(ev)
		if ce := log.Check(e.level, e.msg); ce != nil {
			ce.Write(e.fields...)
		}
	}
}

// reloaded is the line of a reload; what it did to each plugin is in fields of arrays.
func reloaded(e supervisor.Reloaded) entry {
	r := e.Report
	level := zapcore.InfoLevel
	if r.Result != "success" {
		level = zapcore.WarnLevel
	}
	f := []zap.Field{zap.String("cause", e.Cause), zap.String("result", r.Result), zap.String("hash", r.Hash), zap.Int("unchanged", r.Unchanged)}
	if len(r.Changes) > 0 {
		lines := make([]string, len(r.Changes))
		for i, c := range r.Changes {
			lines[i] = changeLine(c)
		}
		f = append(f, zap.Strings("changes", lines))
	}
	if len(r.Problems) > 0 {
		f = append(f, zap.Strings("problems", r.Problems))
	}
	if r.MoreProblems > 0 {
		f = append(f, zap.Int("moreProblems", r.MoreProblems))
	}
	if len(r.NeedRestart) > 0 {
		f = append(f, zap.Strings("needRestart", r.NeedRestart))
	}
	return entry{level, "configuration reloaded", f}
}

func who(plugin, team string) []zap.Field {
	return []zap.Field{zap.String("plugin", plugin), zap.String("team", team)}
}

func where(namespace, pod, container string) []zap.Field {
	f := []zap.Field{zap.String("namespace", namespace), zap.String("pod", pod)}
	if container != "" {
		f = append(f, zap.String("container", container))
	}
	return f
}

// line is the log format: the one place where events become lines.
func line(ev supervisor.Event) entry {
	const debug, info, warn, errl = zapcore.DebugLevel, zapcore.InfoLevel, zapcore.WarnLevel, zapcore.ErrorLevel
	switch e := ev.(type) {
	case supervisor.Started:
		return entry{info, "started", []zap.Field{zap.String("version", e.Version), zap.Int("plugins", e.Plugins), zap.Int("invalid", e.Invalid)}}
	case supervisor.Stopping:
		return entry{info, "stopping", nil}
	case supervisor.ConfigProblem:
		level := errl
		if e.Problem.Severity == policy.Warning {
			level = warn
		}
		return entry{level, "configuration problem", []zap.Field{zap.String("problem", e.Problem.Error())}}
	case supervisor.Reloaded:
		return reloaded(e)
	case supervisor.RuntimeConnected:
		return entry{info, "registered with the runtime", []zap.Field{
			zap.String("runtime", e.Runtime), zap.String("runtimeVersion", e.Version), zap.String("nriVersion", e.NRIVersion),
			zap.Duration("requestTimeout", e.RequestTimeout), zap.Int("pods", e.Pods), zap.Int("containers", e.Containers),
			zap.String("events", e.Events),
		}}
	case supervisor.RuntimeUnavailable:
		return entry{warn, "runtime not reachable", []zap.Field{
			zap.String("socket", e.Socket), zap.String("reason", e.Reason), zap.String("error", e.Err), zap.String("hint", e.Hint),
		}}
	case supervisor.RuntimeLost:
		return entry{warn, "runtime lost", []zap.Field{zap.String("reason", e.Reason)}}
	case supervisor.PhaseChanged:
		return entry{debug, "plugin changed state", append(who(e.Plugin, e.Team), zap.String("from", e.From), zap.String("to", e.To), zap.Int("pid", e.PID))}
	case supervisor.PluginStarted:
		return entry{info, "plugin started", append(who(e.Plugin, e.Team), zap.Int("pid", e.PID), zap.String("version", e.Identity.Version),
			zap.String("sha256", e.Identity.SHA256), zap.Duration("took", e.Took))}
	case supervisor.PluginStartFailed:
		return entry{errl, "plugin did not start", append(who(e.Plugin, e.Team), zap.String("error", e.Err))}
	case supervisor.PluginStartGivenUp:
		return entry{info, "start of plugin given up", append(who(e.Plugin, e.Team), zap.String("why", e.Err))}
	case supervisor.RegisteredOtherwise:
		return entry{warn, "plugin registered as another than its manifest says", append(who(e.Plugin, e.Team), zap.String("name", e.Name), zap.String("index", e.Index))}
	case supervisor.AttachRefused:
		return entry{warn, "connection to a plugin's socket refused", append(who(e.Plugin, e.Team), zap.Uint32("uid", e.UID), zap.Int("pid", e.PID),
			zap.String("why", e.Why), zap.Int("more", e.More))}
	case supervisor.PluginReplaced:
		return entry{info, "plugin replaced while in service", append(who(e.Plugin, e.Team), zap.Int("fromPid", e.From), zap.Int("pid", e.To))}
	case supervisor.PluginExited:
		level := warn
		if e.Exit.Reason == "stopped" {
			level = info
		}
		return entry{level, "plugin exited", append(who(e.Plugin, e.Team), zap.Int("pid", e.PID), zap.String("reason", e.Exit.Reason),
			zap.String("detail", e.Exit.Detail), zap.Strings("lastOutput", e.Exit.Output))}
	case supervisor.ChildrenOutOfMemory:
		return entry{warn, "processes of a plugin were killed for want of memory", append(append(who(e.Plugin, e.Team), pidIfAny(e.PID)...), zap.Int("killed", e.Killed))}
	case supervisor.PluginSynced:
		return entry{info, "plugin synchronized", append(who(e.Plugin, e.Team), zap.Int("pods", e.Pods), zap.Int("containers", e.Containers), zap.Duration("took", e.Took))}
	case supervisor.PluginSyncFailed:
		return entry{errl, "plugin not synchronized", append(who(e.Plugin, e.Team), zap.String("error", e.Err))}
	case supervisor.BreakerChanged:
		return entry{warn, "circuit breaker changed", append(who(e.Plugin, e.Team), zap.String("from", e.From.String()), zap.String("to", e.To.String()),
			zap.String("cause", e.Cause.String()), zap.Duration("openFor", e.OpenFor))}
	case supervisor.Fallback:
		return entry{warn, "plugin's work is missing", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...),
			zap.String("containerID", e.ContainerID), zap.String("event", e.NRIEvent), zap.String("action", e.Action), zap.String("reason", e.Reason),
			zap.String("detail", e.Detail), zap.Duration("took", e.Took))}
	case supervisor.Rejection:
		return entry{warn, "plugin refused a container", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...),
			zap.String("reason", e.Reason), zap.Bool("honoured", e.Honoured))}
	case supervisor.Forbidden:
		return entry{warn, "adjustment not permitted", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...), zap.Strings("denials", texts(e.Denials)))}
	case supervisor.Unmet:
		return entry{warn, "container refused: a required plugin is missing", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...),
			zap.String("requiredBy", e.By), zap.String("why", e.Why))}
	case supervisor.Conflict:
		return entry{warn, "adjustment dropped: an earlier plugin made it", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...),
			zap.Strings("with", e.With), zap.Strings("withTeams", e.WithTeams), zap.Strings("fields", e.Fields))}
	case supervisor.LateReply:
		return entry{info, "late reply discarded", append(who(e.Plugin, e.Team), zap.Duration("after", e.After))}
	case supervisor.UpdateDenied:
		return updateDenied(e)
	case supervisor.UpdateFailed:
		return entry{warn, "container update not made", append(who(e.Plugin, e.Team), zap.String("containerID", e.ContainerID), zap.String("error", e.Err))}
	case supervisor.Missed:
		return entry{warn, "container found without a plugin's work", append(append(who(e.Plugin, e.Team), where(e.Namespace, e.Pod, e.Container)...),
			zap.String("containerID", e.ContainerID), zap.String("reason", e.Reason))}
	case supervisor.Output:
		return outputLine(e)
	case supervisor.ManualAction:
		return manualLine(e)
	case supervisor.BypassGoesOn:
		return entry{warn, "bypass goes on", []zap.Field{zap.Time("until", e.Until), zap.String("hint", "no plugin is called; end it: nri-supervisor bypass --off")}}
	case supervisor.StateProblem:
		return entry{errl, "state directory", []zap.Field{zap.String("error", e.Err)}}
	case supervisor.AuditProblem:
		if e.Err == "" {
			return entry{info, "audit is written again", []zap.Field{zap.Uint64("lost", e.Lost)}}
		}
		return entry{errl, "audit is not written", []zap.Field{zap.String("error", e.Err), zap.Uint64("lost", e.Lost)}}
	case supervisor.Defect:
		return entry{errl, "defect of nri-supervisor, please report", []zap.Field{zap.String("where", e.Where), zap.String("what", e.What)}}
	case supervisor.Dropped:
		return entry{warn, "log lines lost", []zap.Field{zap.Uint64("count", e.Count)}}
	}
	return entry{errl, "unknown event", []zap.Field{zap.String("type", fmt.Sprintf("%T", ev))}}
}

// updateDenied is the line of updates that were not granted: of one, of several at once, or of what came too fast to be told one by one.
func updateDenied(e supervisor.UpdateDenied) entry {
	f := append(who(e.Plugin, e.Team), zap.String("event", e.NRIEvent), zap.String("containerID", e.ContainerID), zap.String("why", e.Why))
	if len(e.Fields) > 0 {
		f = append(f, zap.Strings("fields", texts(e.Fields)))
	}
	if e.Count > 1 || e.More {
		f = append(f, zap.Int("count", e.Count))
	}
	if !e.More {
		return entry{zapcore.WarnLevel, "container update denied", f}
	}
	return entry{zapcore.WarnLevel, "more container updates denied", append(f, zap.Time("from", e.From), zap.Time("to", e.To))}
}

// texts renders each of the items.
func texts[T fmt.Stringer](items []T) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = item.String()
	}
	return out
}

// bypassOver is the end of a bypass that nobody asked for.
const bypassOver = "bypass over"

// manualLine shows what an operator did, with only what belongs to that action.
func manualLine(e supervisor.ManualAction) entry {
	f := []zap.Field{zap.String("action", e.Action)}
	if e.Plugin != "" {
		f = append(f, zap.String("plugin", e.Plugin))
	}
	if e.For > 0 {
		f = append(f, zap.Duration("for", e.For))
	}
	if e.Action != bypassOver {
		f = append(f, zap.Uint32("uid", e.UID))
	}
	return entry{zapcore.InfoLevel, "manual action", f}
}

// outputLine shows what a plugin wrote, at the level that it gave.
func outputLine(e supervisor.Output) entry {
	level := zapcore.InfoLevel
	switch strings.ToLower(e.Line.Level) {
	case "trace", "debug":
		level = zapcore.DebugLevel
	case "warn":
		level = zapcore.WarnLevel
	case "error":
		level = zapcore.ErrorLevel
	}
	f := append(who(e.Plugin, e.Team), zap.Int("pid", e.PID), zap.String("stream", e.Line.Stream), zap.String("text", e.Line.Text))
	if e.Line.Truncated {
		f = append(f, zap.Bool("truncated", true))
	}
	if e.Line.Dropped > 0 {
		f = append(f, zap.Int("dropped", e.Line.Dropped))
	}
	return entry{level, "plugin output", f}
}

// pidIfAny is the process, if there was one: of a start that failed there is none.
func pidIfAny(pid int) []zap.Field {
	if pid == 0 {
		return nil
	}
	return []zap.Field{zap.Int("pid", pid)}
}
