package publish

import (
	"context"
	"errors"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Options say which operations of an OpenAPI document are published, and as what.
type Options struct {
	Namespace string            // the first part of the ids
	Provider  document.Provider // without a name: the title of the document
	// Include and Exclude name operations by operationId, or METHOD and path, with globs: * is any text. What no Include names is not published.
	Include, Exclude []string
	Access           document.AccessPolicy // empty: public if the operation needs no security, else restricted
	Rename           map[string]string     // ids by operationId, or by METHOD and path
	NoOutputSchema   bool
	TimeoutMS        float64 // of the endpoint in the descriptor; 0: none is stated
}

// A Reader reads documents by URL.
type Reader interface {
	Read(ctx context.Context, location *url.URL) ([]byte, error)
}

// An API is what an OpenAPI document publishes. It is immutable.
type API struct {
	Title   string
	Skills  []*Skill // in the order of their ids
	LeftOut []LeftOut
	// Referred are the documents that were read, the one at the location first.
	Referred []*url.URL
}

// Read reads the OpenAPI document at a location, a URL of the scheme file, https or http, and makes skills of its operations. reader reads
// what is not a file; it may be nil if the location is one.
func Read(context.Context, Reader, *url.URL, *Options) (*API, error) {
	return nil, errors.New("not written yet")
}

// Descriptors reads the descriptors that were written by hand in a folder, each in a file *.json, *.yaml or *.yml. Files that have none are left
// out, and both of two with one id.
func Descriptors(folder string) ([]*Skill, []LeftOut, error) {
	return nil, nil, errors.New("not written yet: " + folder)
}
