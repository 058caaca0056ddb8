package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// operatorCommands are the commands beside run and version.
func operatorCommands() []*cobra.Command {
	return []*cobra.Command{newCheck(), newStatus(), newMissed(), newEvents(), newExplain(), newRecord(), newVerify(), newPlugin(), newReload(), newBypass(), newSecurity(), newDoctor(), newLogLevel()}
}

// defaultSocket is the admin socket of a supervisor with the default configuration (design §5).
const defaultSocket = "/run/nri-supervisor/admin.sock"

// connectFlags say where the running supervisor is found.
type connectFlags struct {
	socket string
	config string
}

func (f *connectFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.socket, "socket", "", "admin socket of the running nri-supervisor (default: what the configuration says)")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration that names the admin socket (default "+defaultConfig+", if it exists)")
}

// client returns a client for the socket. note is told when the socket had to be guessed.
func (f *connectFlags) client(note io.Writer) (*admin.Client, error) {
	socket, err := f.find(note)
	if err != nil {
		return nil, err
	}
	c, err := admin.Dial(socket)
	if err != nil {
		return nil, usageError{hintError{err, []string{"set --socket"}}}
	}
	return c, nil
}

// find returns the socket: the flag's, the one in the configuration, or the default. A broken default configuration is no reason to leave the operator blind: the
// service runs with the last good one.
func (f *connectFlags) find(note io.Writer) (string, error) {
	if f.socket != "" {
		return f.socket, nil
	}
	path, err := configPath(f.config)
	if err == nil && path == "" {
		return defaultSocket, nil
	}
	if err == nil {
		var cfg *policy.Config
		if cfg, err = policy.Load(policy.LoadOptions{ConfigFile: path, PluginPaths: []string{}}); err == nil {
			return cfg.Supervisor.Admin.Socket, nil
		}
	}
	if f.config != "" {
		return "", hintError{errors.New(firstProblem(err)), []string{"name the admin socket itself: --socket " + defaultSocket}}
	}
	_, _ = fmt.Fprintf(note, "nri-supervisor: note: the configuration cannot be used (%s); trying %s\n", clean(firstProblem(err)), defaultSocket)
	return defaultSocket, nil
}

// firstProblem is one line of an error of policy.Load, which may have many.
func firstProblem(err error) string {
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		if bad := problems.Errors(); len(bad) > 0 {
			err = bad[0]
		}
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// asked turns an error of the client into one for the command line. What other programs wrote is made harmless on the way.
func asked(err error) error {
	req, ok := errors.AsType[*admin.RequestError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted before the supervisor had answered")
	case !ok:
		return err
	}
	hints := make([]string, len(req.Hints))
	for i, h := range req.Hints {
		hints[i] = clean(h)
	}
	return hintError{errors.New(clean(req.Message)), hints}
}

// askedTo is asked for a request that changes something.
func askedTo(err error) error {
	if errors.Is(err, context.Canceled) {
		return hintError{asked(err), []string{"what was begun is carried out to its end: look at nri-supervisor status"}}
	}
	return asked(err)
}

// look returns the status before something is changed, for the wording; nil if it is not known, which is no reason to change nothing. Of a supervisor that stands still, and when ctx ends, it returns
// the error: nothing is asked for then.
func look(ctx context.Context, c *admin.Client) (*supervisor.Status, error) {
	st, err := c.Status(ctx)
	if req, ok := errors.AsType[*admin.RequestError](err); ctx.Err() != nil || ok && req.Timeout() {
		return nil, asked(err)
	}
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // what is wrong is told by the request itself, if it fails as well
	}
	return &st, nil
}
