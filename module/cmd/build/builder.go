package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/xcaddy"
	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// readBuilder reads an xcaddy.Builder from a file. Unknown members are an error. Relative paths in the
// file are relative to its folder.
func readBuilder(path string) (xcaddy.Builder, error) {
	var builder xcaddy.Builder
	content, err := os.ReadFile(path)
	if err != nil {
		return builder, fmt.Errorf("reading what to build: %w", err)
	}
	err = json.Unmarshal(content, &builder,
		json.RejectUnknownMembers(true),
		jsonv1.FormatDurationAsNano(true)) // like encoding/json
	if err != nil {
		return builder, fmt.Errorf("%s is not an xcaddy.Builder: %w", path, err)
	}
	if builder.CaddyVersion == "" {
		return builder, fmt.Errorf("%s: caddy_version is missing: the build would follow whatever is the latest Caddy", path)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return builder, fmt.Errorf("finding the folder of %s: %w", path, err)
	}
	if err := anchor(&builder, folder); err != nil {
		return builder, fmt.Errorf("%s: %w", path, err)
	}
	return builder, nil
}

// anchor makes the relative paths of a builder absolute, because xcaddy builds in a temporary folder.
func anchor(builder *xcaddy.Builder, folder string) error {
	for i, replacement := range builder.Replacements {
		if replacement.Old == "" || replacement.New == "" {
			return fmt.Errorf("replacements[%d]: both old and new are required", i)
		}
		path := replacement.New.String()
		if !isLocal(path) {
			continue
		}
		builder.Replacements[i].New = xcaddy.ReplacementPath(absolute(path, folder))
	}
	for i := range builder.EmbedDirs {
		if builder.EmbedDirs[i].Dir == "" {
			return errors.New("embed_dir: dir is required")
		}
		builder.EmbedDirs[i].Dir = absolute(builder.EmbedDirs[i].Dir, folder)
	}
	if builder.PgoProfile != "" {
		builder.PgoProfile = absolute(builder.PgoProfile, folder)
	}
	return nil
}

// isLocal reports whether a replacement is a folder: it begins with ./ or ../ or is absolute (Go
// Modules Reference, replace directive).
func isLocal(path string) bool {
	slashed := filepath.ToSlash(path)
	return slashed == "." || slashed == ".." ||
		strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || filepath.IsAbs(path)
}

func absolute(path, folder string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
