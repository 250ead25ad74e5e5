package skillsite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// The types of artifacts.
const (
	TypeFile    = "skill-md" // a SKILL.md
	TypeArchive = "archive"  // a .tar.gz or .zip with SKILL.md at its root
)

// Artifact is what an index says about the file of a skill, besides its URL.
type Artifact struct {
	Type   string // TypeFile or TypeArchive
	Digest string // "sha256:" and 64 hexadecimal digits
}

const digestAlgorithm = "sha256:"

// fragment is appended to the URL of the artifact. The URL of a descriptor has it, so that a new digest is a new document.
func (a Artifact) fragment() string { return "#" + a.Type + ":" + a.Digest }

// ArtifactOf returns the artifact that the URL in an index entry of [ReadIndex] says, and its fragment. Other URLs have none.
func ArtifactOf(text string) (a Artifact, fragment string, ok bool) {
	at := strings.LastIndexByte(text, '#')
	if at < 0 {
		return Artifact{}, "", false
	}
	a.Type, a.Digest, ok = strings.Cut(text[at+1:], ":")
	if !ok || a.Type != TypeFile && a.Type != TypeArchive || !a.valid() {
		return Artifact{}, "", false
	}
	return a, text[at:], true
}

// valid reports whether the digest has the form of one.
func (a Artifact) valid() bool {
	digits, ok := strings.CutPrefix(a.Digest, digestAlgorithm)
	return ok && len(digits) == hex.EncodedLen(sha256.Size) && strings.Trim(digits, "0123456789abcdef") == ""
}

// version returns the version of the skill. The format has no versions: the version changes with the digest.
func (a Artifact) version() string {
	return "0.0.0+sha256." + strings.TrimPrefix(a.Digest, digestAlgorithm)[:12]
}

// byteOrderMark begins some UTF-8 files. It is not part of what the bridge reads, but of the digest.
const byteOrderMark = "\ufeff"

// check checks the digest of the artifact's bytes, which are without a byte order mark.
func (a Artifact) check(text []byte) *run.Failure {
	sum := digestOf("", text)
	if a.Digest == sum || a.Digest == digestOf(byteOrderMark, text) {
		return nil
	}
	return document.Unusable(
		run.PhaseDescriptor, "The skill is not used, because its file is not the one that the site's index lists: the SHA-256 digests differ.",
		run.Violation{Path: pathOfDigest, Message: "must be that of the file", Expected: jsonvalue.Quoted(a.Digest), Actual: jsonvalue.Quoted(sum)})
}

const pathOfDigest = "/digest"

// IsChange reports whether the failure of reading an artifact is that its digest differs: the site may have changed the file and the index.
func IsChange(f *run.Failure) bool {
	return f.Phase == run.PhaseDescriptor && len(f.Violations) == 1 && f.Violations[0].Path == pathOfDigest
}

func digestOf(prefix string, text []byte) string {
	h := sha256.New()
	h.Write([]byte(prefix))
	h.Write(text)
	return digestAlgorithm + hex.EncodeToString(h.Sum(nil))
}

// maxMain bounds SKILL.md, in bytes: lists have that of each skill.
const maxMain = 1 << 20

// Read checks the digest of an artifact, which was served at a URL, and returns its files and a descriptor. The error is a [*run.Failure].
func (a Artifact) Read(text []byte, served *url.URL) (*Files, []byte, error) {
	if failure := a.check(text); failure != nil {
		return nil, nil, failure
	}
	invalid := func(message string, v run.Violation) (*Files, []byte, error) {
		return nil, nil, document.Unusable(run.PhaseDescriptor, message, v)
	}
	files := single(text)
	if a.Type == TypeArchive {
		var err error
		if files, err = unpack(text); err != nil {
			return invalid("The archive of the skill can't be used: "+err.Error()+".", run.Violation{Message: err.Error()})
		}
	}
	main, ok := files.Get(Main)
	if !ok {
		return invalid("The archive of the skill has no "+Main+" at its root.", run.Violation{Message: "must have " + Main + " at its root"})
	}
	if len(main) > maxMain {
		return invalid(fmt.Sprintf("The %s of the skill has more than %d MiB.", Main, maxMain>>20), run.Violation{Message: fmt.Sprintf("must have at most %d MiB", maxMain>>20)})
	}
	if what := frontMatterFault(main); what != "" {
		return invalid("The "+Main+" of the skill "+what+".", run.Violation{Message: what})
	}
	head := readFrontMatter(main)
	missing := ""
	switch {
	case head.name == "":
		missing = "name"
	case !isName(head.name):
		return invalid("The name in the front matter of the skill's "+Main+" is none of the format.", run.Violation{
			Path: "/name", Message: nameRule, Actual: jsonvalue.Shown(safetext.Clip(head.name, maxName)),
		})
	case head.description == "":
		missing = "description"
	}
	if missing != "" {
		return invalid(fmt.Sprintf("The %s of the skill has no %s in its front matter.", Main, missing), run.Violation{Path: "/" + missing, Message: "must be in the front matter"})
	}
	return files, jsonvalue.Marshal(a.descriptor(head, served)), nil
}

// descriptor returns the descriptor of a skill. Its endpoint is the file itself: the skill can't be executed.
func (a Artifact) descriptor(head frontMatter, served *url.URL) *document.Descriptor {
	from := *served
	from.Fragment, from.RawFragment = "", ""
	return &document.Descriptor{
		Protocol: document.ProtocolVersion{Version: document.ConsumerVersion},
		ID:       head.name, Name: head.name, Version: a.version(), CapabilityType: document.Knowledge, Description: head.description,
		Provider: providerAt(served), Endpoint: document.Endpoint{URL: from.String(), Method: "GET"}, Inputs: []document.Parameter{},
		Output: document.Output{ContentType: "text/markdown"}, Auth: document.Auth{Type: document.AuthNone}, Access: document.Public,
	}
}
