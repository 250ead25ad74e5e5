package credentials

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// option says how one option of a block is read. Errors name options and never
// repeat arguments, which may be secrets.
type option struct {
	repeatable bool
	set        func(args []string) error
}

// single is an option with exactly one argument, which check has to accept
// unless it is nil.
func single(target *string, check func(string) error) option {
	return option{set: func(args []string) error {
		if len(args) != 1 {
			return errors.New("takes exactly one argument")
		}
		if check != nil {
			if err := check(args[0]); err != nil {
				return err
			}
		}
		*target = args[0]
		return nil
	}}
}

// head reads the line of a module: its name and as many arguments as there are
// targets.
func head(d *caddyfile.Dispenser, targets ...*string) error {
	d.Next() // the module's name
	name := d.Val()
	args := d.RemainingArgs()
	if len(args) != len(targets) {
		return d.Errf("%s takes %d argument(s), not %d", name, len(targets), len(args))
	}
	for i, target := range targets {
		*target = args[i]
	}
	return nil
}

// block reads a module's block, if there is one.
func block(d *caddyfile.Dispenser, lookup func(name string) (option, bool)) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		opt, ok := lookup(name)
		if !ok {
			return d.Errf("unknown option %q", name)
		}
		if seen[name] && !opt.repeatable {
			return d.Errf("option %s is written twice", name)
		}
		seen[name] = true
		if err := opt.set(d.RemainingArgs()); err != nil {
			return d.WrapErr(fmt.Errorf("%s: %w", name, err))
		}
		if inner := d.Nesting(); d.NextBlock(inner) {
			return d.Errf("option %s takes no block", name)
		}
	}
	return nil
}

// among is the lookup of a fixed set of options.
func among(options map[string]option) func(string) (option, bool) {
	return func(name string) (option, bool) {
		opt, ok := options[name]
		return opt, ok
	}
}
