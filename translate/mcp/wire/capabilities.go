package wire

import "github.com/go-json-experiment/json/jsontext"

// Offers say what a server can do beyond tools, resources and completions.
type Offers struct{ ListChanged, Tasks bool }

// Capabilities adds the member capabilities.
func (w *Writer) Capabilities(o Offers) {
	w.OpenMember("capabilities")
	w.OpenMember("tools")
	if o.ListChanged {
		w.Raw("listChanged", jsontext.Value("true"))
	}
	w.Close()
	for _, feature := range []string{"resources", "prompts", "completions"} {
		w.OpenMember(feature)
		w.Close()
	}
	if o.Tasks {
		w.OpenMember("extensions")
		w.OpenMember(ExtensionTasks)
		w.Close()
		w.Close()
	}
	w.Close()
}
