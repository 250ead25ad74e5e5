package task

// overhead is the approximate size of a task without its texts, in bytes.
const overhead = 1 << 10

// AnswerSize returns about the length of the JSON of a task with the newest messages of its history, and with its artifact or without.
func AnswerSize(t *Task, messages int, artifact bool) int64 {
	n := overhead + sizeOfMessage(t.Status.Message) + sizeOfTexts(t.Warnings)
	for i := range t.History[max(0, len(t.History)-messages):] {
		n += sizeOfMessage(&t.History[len(t.History)-1-i])
	}
	if artifact {
		n += int(t.Artifact.Size())
	}
	return int64(n)
}

func sizeOfMessage(m *Message) int {
	if m == nil {
		return 0
	}
	return 128 + len(m.ID) + len(m.Metadata) + sizeOfParts(m.Parts) + sizeOfTexts(m.Extensions) + sizeOfTexts(m.References)
}

func sizeOfTexts(list []string) int {
	n := 0
	for _, s := range list {
		n += 16 + len(s)
	}
	return n
}

func sizeOfParts(parts []Part) int {
	n := 0
	for i := range parts {
		p := &parts[i]
		n += 128 + len(p.Text) + len(p.Data) + len(p.Filename) + len(p.MediaType) + len(p.Metadata)
	}
	return n
}

// Size returns the approximate size of an artifact in memory, in bytes; 0 for nil.
func (a *Artifact) Size() int64 {
	if a == nil {
		return 0
	}
	return int64(sizeOfParts(a.Parts))
}
