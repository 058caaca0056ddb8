package supervisor

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nri-supervisor/nri-supervisor/policy"
	"github.com/nri-supervisor/nri-supervisor/supervisor/state"
)

// Keys of values in the state.
const (
	keySupervisor = "supervisor" // the last good Supervisor document
	keyManifest   = "manifest/"  // and a plugin's name: its last good manifest
)

// keepGood remembers the valid part of a configuration, for starts with a broken one.
func (s *Supervisor) keepGood(cfg *policy.Config) {
	db := s.opts.State
	if db == nil {
		return
	}
	if cfg.Document != "" {
		db.PutValue(keySupervisor, []byte(cfg.Document))
	}
	for _, p := range cfg.Plugins {
		value, err := json.Marshal(p.Good())
		if err != nil {
			s.emit(StateProblem{Err: "keep the manifest of plugin " + p.Name + ": " + err.Error()})
			continue
		}
		db.PutValue(keyManifest+p.Name, value)
	}
	for _, name := range s.kept {
		if cfg.Plugin(name) == nil && !listsInvalid(cfg, name) {
			db.DeleteValue(keyManifest + name)
		}
	}
	s.kept = s.kept[:0]
	for _, p := range cfg.Plugins {
		s.kept = append(s.kept, p.Name)
	}
}

// LastGood returns the last good configuration that a state holds: the Supervisor document, empty when there is none, and the manifests ordered by name.
func LastGood(l state.Loaded) (document string, manifests []policy.GoodManifest) {
	for key, value := range l.Values {
		if !strings.HasPrefix(key, keyManifest) {
			continue
		}
		var g policy.GoodManifest
		if json.Unmarshal(value, &g) == nil && g.Name != "" {
			manifests = append(manifests, g)
		}
	}
	slices.SortFunc(manifests, func(a, b policy.GoodManifest) int { return strings.Compare(a.Name, b.Name) })
	return string(l.Values[keySupervisor]), manifests
}
