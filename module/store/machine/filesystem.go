package machine

import "fmt"

// FileSystemError is the error for a file that several machines can open: their locks and their memory of the log don't work there.
type FileSystemError struct{ Folder, Name string }

func (e *FileSystemError) Error() string {
	return fmt.Sprintf("%s is on a network file system (%s), which SQLite can't use safely", e.Folder, e.Name)
}
