// Package statuspage is the page at the metrics address: what the supervisor and each plugin do, for a person who looks at it in a browser.
//
// Owns: the page (HTML, CSS and JavaScript, embedded, no framework), the JSON that it reads once a second, and the sentences that say what is wrong with a plugin, of which the command line
// uses those about breakers.
//
// Does not own: the state itself (supervisor), the listener (cmd), anything that changes something: it is read-only, and answers GET and HEAD only.
//
// Everything that plugins, manifests and pods wrote reaches the page as JSON and gets into it as text, never as markup; the content security policy allows nothing but the
// page's own files and its own JSON.
//
// The JSON is made at most four times a second, whoever asks and however often. Its format belongs to the page and may change in any version; programs use the admin API.
package statuspage
