package supervisor

import "strings"

// shortestSecret is the length from which on the value of a variable is looked for: shorter ones, such as 1 or on, are no secrets, and would make a text unreadable.
const shortestSecret = 4

// withoutValues is a text of a plugin's for the journal, without the values of the container's environment in it: oneLine, with each value replaced by the name of its variable.
func withoutValues(text string, env []string) string {
	text = oneLine(text)
	if text == "" {
		return text
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		value = strings.Join(strings.Fields(strings.ToValidUTF8(value, "?")), " ") // as oneLine makes it
		if len(value) < shortestSecret {
			continue
		}
		text = strings.ReplaceAll(text, value, "[value of "+name+"]")
		cut, shortened := strings.CutSuffix(text, "…")
		for n := min(len(value), len(cut)); shortened && n >= shortestSecret; n-- {
			if strings.HasSuffix(cut, value[:n]) { // oneLine has cut it in the middle
				text = cut[:len(cut)-n] + "…"
				break
			}
		}
	}
	return text
}
