package isolation

import (
	"fmt"
	"hash/fnv"
	"os/user"
	"strconv"
	"sync"
)

const (
	// firstOwnUser and ownUsers are the range of the plugins' own users, and of groups with the same numbers: below 2³¹, and above what
	// systemd, subordinate ids and user namespaces of pods use (uids and gids of systemd.io: 1879048192 and up is unused).
	firstOwnUser = 0x70000000
	ownUsers     = 1 << 24
)

// ownUserTable gives each plugin's name a user of its own, the same at each start unless two names clash.
type ownUserTable struct {
	mu    sync.Mutex // guards names
	names map[uint32]string
}

// userOf is who an incarnation runs as; nil: as the supervisor does.
func (h *Host) userOf(s *Spec) (*User, error) {
	if !s.Confine.OwnUser {
		return s.Confine.User, nil
	}
	who, err := h.users.of(s.Name)
	if err != nil {
		return nil, err
	}
	if g := s.Confine.OwnGroups; g != nil {
		who.Groups = g.Supplementary
		if g.GID != nil {
			who.GID = *g.GID
		}
	}
	return who, nil
}

// of returns the user of a plugin.
func (t *ownUserTable) of(name string) (*User, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[uint32]string{}
	}
	for n := range uint32(ownUsers) {
		id := firstOwnUser + (h.Sum32()+n)%ownUsers
		if owner, taken := t.names[id]; taken && owner != name {
			continue
		}
		if _, err := user.LookupId(strconv.FormatUint(uint64(id), 10)); err == nil {
			continue // somebody's account
		}
		t.names[id] = name
		return &User{UID: id, GID: id}, nil
	}
	return nil, fmt.Errorf("find a user id for plugin %q: none is free", name)
}
