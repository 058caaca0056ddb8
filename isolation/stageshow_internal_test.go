package isolation

import "testing"

func TestWhereAListedPathLeadsToIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := shown{path: "/etc/x", listed: "/srv/link"}
	for what, want := range map[string]string{
		"/etc":   `show "/srv/link": a link that others can change leads to "/etc/x", and so to "/etc", which the list does not name: list what is meant without links`,
		"/etc/x": `show "/srv/link": a link that others can change leads to "/etc/x", which the list does not name: list what is meant without links`,
	} {
		if got := s.leadsTo(what).Error(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
