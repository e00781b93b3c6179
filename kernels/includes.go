package kernels

import (
	"regexp"
	"slices"
)

// mostIncluded bounds how many headers are followed.
const mostIncluded = 100

// FollowIncludes lists files and what they include, directly or not: find tells what of the project is meant
// by a name that a file includes, in angle brackets or in quotes.
func FollowIncludes(files []string, read func(name string) []byte, find func(from, name string, angled bool) []string) []string {
	all := slices.Clone(files)
	for i := 0; i < len(all) && len(all) < mostIncluded; i++ {
		for _, m := range includeLine.FindAllSubmatch(read(all[i]), -1) {
			for _, file := range find(all[i], string(m[2]), m[1][0] == '<') {
				if !slices.Contains(all, file) {
					all = append(all, file)
				}
			}
		}
	}
	return all
}

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]`)
