package demo

import (
	"bytes"
	"errors"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// markdown renders without html.WithUnsafe, which omits raw HTML and links such as javascript:.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))

const maxOutput = 1 << 20 // bytes

var errTooLarge = errors.New("output too large")

// A limitedBuffer is a buffer of at most maxOutput bytes: a long reference that is used many times
// expands to much more HTML. The buffer is not embedded, so that there are no other methods to write.
type limitedBuffer struct{ html bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.html.Len()+len(p) > maxOutput {
		return 0, errTooLarge
	}
	return b.html.Write(p)
}

// A source is the input of renderMarkdown.
type source struct {
	Markdown string `json:"markdown"`
}

// renderMarkdown turns Markdown into HTML.
func renderMarkdown(in source) (any, *failure) {
	var out limitedBuffer
	err := markdown.Convert([]byte(in.Markdown), &out)
	if errors.Is(err, errTooLarge) {
		return nil, &failure{Code: "OUTPUT_TOO_LARGE", Message: "The output would be larger than 1 MiB"}
	}
	if err != nil {
		return nil, &failure{Code: "MARKDOWN_ERROR", Message: err.Error()}
	}
	return object{"html": out.html.String()}, nil
}
