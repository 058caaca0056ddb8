package isolation

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// check says what is wrong with a Spec, before anything is touched.
func (s *Spec) check() error {
	if err := api.CheckPluginName(s.Name); err != nil || strings.Trim(s.Name, ".") == "" {
		return fmt.Errorf("check name %q: use letters, digits, - _ + and . only", s.Name)
	}
	if err := api.CheckPluginIndex(s.Index); err != nil {
		return fmt.Errorf("check index %q: use two digits", s.Index)
	}
	if s.Protocol != GoPlugin && s.Protocol != NRI {
		return fmt.Errorf("check protocol %q: use %s or %s", s.Protocol, GoPlugin, NRI)
	}
	if !filepath.IsAbs(s.RunDir) {
		return fmt.Errorf("check run directory %q: not an absolute path", s.RunDir)
	}
	if err := s.Confine.check(s.Host); err != nil {
		return err
	}
	switch s.LogLevel {
	case "", levelTrace, levelDebug, levelInfo, levelWarn, levelError:
	default:
		return fmt.Errorf("check log level %q: use trace, debug, info, warn or error", s.LogLevel)
	}
	for _, kv := range s.Env {
		if err := checkEnv(kv); err != nil {
			return err
		}
	}
	return nil
}

// checkEnv refuses what is malformed, and the names that carry the contract between plugin and supervisor.
func checkEnv(kv string) error {
	key, _, ok := strings.Cut(kv, "=")
	if !ok || key == "" || strings.ContainsRune(kv, 0) {
		return fmt.Errorf("check environment %q: use KEY=VALUE without zero bytes", key) // the value may be a secret
	}
	for _, prefix := range []string{"NRI_PLUGIN_", "PLUGIN_", "NRI_SUPERVISOR_"} {
		if strings.HasPrefix(key, prefix) {
			return fmt.Errorf("check environment %q: names that start with %s are set by the supervisor", key, prefix)
		}
	}
	return nil
}

func (s *Spec) logLevel() string {
	if s.LogLevel == "" {
		return levelInfo
	}
	return s.LogLevel
}
