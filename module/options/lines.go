package options

import (
	"crypto/sha256"
	"encoding/json" // as Caddy encodes the configuration that it loads
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Lines are the file and line of values of a configuration that was read from a Caddyfile, by their JSON paths. Nil: they are not known.
type Lines map[string]string

// maxRemembered bounds the blocks whose lines are kept.
const maxRemembered = 100

// remembered are the lines of the blocks that this process has read last. Caddy converts a Caddyfile to JSON before it loads modules, so that faults
// that are found when a module is provisioned would not have a line otherwise.
var remembered struct {
	sync.Mutex
	lines map[[sha256.Size]byte]Lines
	order [][sha256.Size]byte
}

// Remember keeps the lines of a configuration that the reader has read. Only a hash of the configuration is kept.
func (r *Reader) Remember(config any) {
	lines := make(Lines, len(r.lines))
	for path, line := range r.lines {
		lines[path] = strings.TrimPrefix(line.WrapErr(errors.New("")).Error(), ", at ")
	}
	key, err := hash(config)
	if err != nil {
		return
	}
	remembered.Lock()
	defer remembered.Unlock()
	if remembered.lines == nil {
		remembered.lines = map[[sha256.Size]byte]Lines{}
	}
	if remembered.lines[key] == nil {
		remembered.order = append(remembered.order, key)
	}
	remembered.lines[key] = lines
	if len(remembered.order) > maxRemembered {
		delete(remembered.lines, remembered.order[0])
		remembered.order = remembered.order[1:]
	}
}

// LinesOf returns the lines of a configuration, if this process has read it from a Caddyfile. The configuration must be as it was read.
func LinesOf(config any) Lines {
	key, err := hash(config)
	if err != nil {
		return nil
	}
	remembered.Lock()
	defer remembered.Unlock()
	return remembered.lines[key]
}

func hash(config any) (key [sha256.Size]byte, err error) {
	text, err := json.Marshal(config)
	return sha256.Sum256(text), err
}

// At returns file and line of the value with a JSON path, or else of the object that contains the value; empty: they are not known.
func (l Lines) At(path string) string {
	for {
		if line := l[path]; line != "" || path == "" {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Locate adds file and line to a [ConfigError], if they are known.
func (l Lines) Locate(err error) error {
	if fault, ok := errors.AsType[*ConfigError](err); ok {
		if line := l.At(fault.Path); line != "" {
			return fmt.Errorf("%w, at %s", err, line)
		}
	}
	return err
}
