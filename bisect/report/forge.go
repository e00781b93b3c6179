package report

import (
	"net/url"
	"regexp"
	"strings"
)

// Forge is the address of a commit's page without the id at its end; "" where origin is on no forge that is known.
type Forge string

// Link is the address of a commit, "" where there is none.
func (f Forge) Link(id string) string {
	if f == "" || id == "" {
		return ""
	}
	return string(f) + id
}

// plainPath is a path of a repository that needs no escape wherever an address stands.
var plainPath = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+$`)

// plainHost is the name of a machine, with its port.
var plainHost = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?$`)

// ForgeOf reads the address of a remote as git takes it. It knows GitHub and GitLab, and machines of one's own whose
// name begins so. Credentials in front of the host are left out, and any address with a character that might need
// escaping gives "".
func ForgeOf(remote string) Forge {
	host, path := "", ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		host, path = u.Host, u.Path
		if u.Scheme != "https" && u.Scheme != "http" { // its port is not that of the pages
			host = u.Hostname()
		}
	} else if before, after, found := strings.Cut(remote, ":"); found { // git@host:owner/name
		host, path = before[strings.LastIndex(before, "@")+1:], after
	}
	host, path = strings.ToLower(host), strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if !plainHost.MatchString(host) || !plainPath.MatchString(path) {
		return ""
	}
	switch label, _, _ := strings.Cut(host, "."); label {
	case "github":
		return Forge("https://" + host + "/" + path + "/commit/")
	case "gitlab":
		return Forge("https://" + host + "/" + path + "/-/commit/")
	}
	return ""
}
