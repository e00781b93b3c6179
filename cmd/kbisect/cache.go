package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/cache"
)

// cacheCommand is about cached builds only, which all repositories of a user share. Results of launches are in the
// store of each repository and are not touched.
func cacheCommand() *cli.Command {
	return parent(&cli.Command{Name: "cache", Usage: "show or trim the build cache"},
		&cli.Command{Name: "stats", Usage: "what is kept", Action: cacheStats},
		&cli.Command{
			Name: "trim", Usage: "drop what was not used for longest", Action: cacheTrim,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "max", Usage: "keep at most `SIZE`", Value: "10GB"},
				durationFlag("age", "drop what was not used for `DURATION`, such as 720h", "720h"),
			},
		},
	)
}

// openCache opens the build cache. A folder that the user chose badly is a usage error; one that cannot be opened is a
// problem of the machine.
func openCache() (*cache.Cache, error) {
	root, _, err := cache.Root()
	if err != nil {
		return nil, exit.Usage(err)
	}
	c, err := cache.Open(filepath.Join(root, "builds"))
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return c, nil
}

// cacheStats prints how many builds are kept and their size on disk, in decimal units (1 kB is 1000 bytes), as --max of
// trim takes them.
func cacheStats(c *cli.Context) error {
	builds, err := openCache()
	if err != nil {
		return err
	}
	s, err := builds.Stats()
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	fmt.Fprintf(c.App.Writer, "%s, %s\n", words.Count(s.Entries, "build"), humanize.Bytes(uint64(s.Bytes)))
	return nil
}

// cacheTrim drops builds that were not used for longer than --age (default 30 days), and then the least recently used
// ones until what is left fits into --max.
func cacheTrim(c *cli.Context) error {
	most, err := humanize.ParseBytes(c.String("max"))
	// A number without a unit would mean bytes, which nobody intends; only 0 is clear.
	if _, bare := strconv.ParseUint(c.String("max"), 10, 64); err != nil || bare == nil && most > 0 {
		return exit.Usagef("--max %s: invalid size\nhint: such as 500MB or 10GB", c.String("max"))
	}
	age := cmp.Or(duration(c, "age"), 30*24*time.Hour) // the 720h of the help
	builds, err := openCache()
	if err != nil {
		return err
	}
	r, err := builds.Trim(int64(most), age)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	fmt.Fprintf(c.App.Writer, "%s dropped, %s freed\n", words.Count(r.Entries, "build"), humanize.Bytes(uint64(r.Bytes)))
	return nil
}
