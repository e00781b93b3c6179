package source

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	graphv2 "github.com/go-git/go-git/v5/plumbing/format/commitgraph/v2"
)

// commitGraph answers from git's commit-graph files held in memory: go-git's
// reader issues many tiny reads, which would be slow on the file itself. A
// nil commitGraph knows nothing.
type commitGraph struct {
	index graphv2.Index
}

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// openCommitGraph returns nil when there is no graph or it cannot be read:
// it is only a faster copy of what the objects say.
func openCommitGraph(commonDir string) *commitGraph {
	info := filepath.Join(commonDir, "objects", "info")
	if index := openGraphFile(filepath.Join(info, "commit-graph"), nil); index != nil {
		return &commitGraph{index}
	}
	chain, err := os.ReadFile(filepath.Join(info, "commit-graphs", "commit-graph-chain"))
	if err != nil {
		return nil
	}
	var index graphv2.Index
	for _, hash := range strings.Fields(string(chain)) {
		if index = openGraphFile(filepath.Join(info, "commit-graphs", "graph-"+hash+".graph"), index); index == nil {
			return nil
		}
	}
	if index == nil {
		return nil
	}
	return &commitGraph{index}
}

func openGraphFile(path string, parent graphv2.Index) graphv2.Index {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	index, err := graphv2.OpenFileIndexWithParent(memoryFile{bytes.NewReader(data)}, parent)
	if err != nil {
		return nil
	}
	return index
}

func (g *commitGraph) lookup(id string) (node, bool) {
	if g == nil || len(id) != 40 {
		return node{}, false
	}
	i, err := g.index.GetIndexByHash(plumbing.NewHash(id))
	if err != nil {
		return node{}, false
	}
	data, err := g.index.GetCommitDataByIndex(i)
	if err != nil {
		return node{}, false
	}
	n := node{date: data.When.Unix()}
	for _, p := range data.ParentHashes {
		n.parents = append(n.parents, hex.EncodeToString(p[:]))
	}
	return n, true
}
