package supervisor

// mostListed is how many mistakes in the configuration, and how many manifests that cannot be used, are listed, logged and measured: more than a person mends one by one, and far less than a folder
// that something fills by mistake can hold. The others are counted.
const mostListed = 100

// listed returns the beginning of a list, and how many are behind it.
func listed[T any](list []T) (first []T, more int) {
	n := min(len(list), mostListed)
	return list[:n:n], len(list) - n
}
