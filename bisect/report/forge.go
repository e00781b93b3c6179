package report

import (
	"net/url"
	"regexp"
	"strings"
)

// Forge is the address of a commit on the forge that origin is, but for its id at the end; "" for none.
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

// ForgeOf reads the address of a remote as git takes it. It knows GitHub and GitLab, also on a machine of one's own that
// bears their name. What stands before the host, such as a token, is left out.
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
