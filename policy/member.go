package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseMember reads a member of a role: uid:N or gid:N, with N below 2³²-1, which is nobody's number (chown(2)).
func ParseMember(member string) (id uint32, group bool, err error) {
	kind, number, _ := strings.Cut(member, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || kind != "uid" && kind != "gid" || n == 1<<32-1 {
		return 0, false, fmt.Errorf("read member %q: write uid:0 or gid:0 with the number", member)
	}
	return uint32(n), kind == "gid", nil
}
