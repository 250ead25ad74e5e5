package verdict

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// adviceFile is the advice for a file that the process may not use.
const adviceFile = "The path has to be that of a file, which is, as its folder, readable and writable for the user who runs Caddy. Or name another file with: store sqlite <file>"

// Code returns the primary code of an error of the driver of SQLite; 0: it is none.
func Code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// SQLite says what an error of SQLite or of its file means; nil: it is not known.
func SQLite(err error) *Verdict {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return &Verdict{Advice: adviceFile}
	}
	switch Code(err) {
	case codes.SQLITE_FULL:
		return &Verdict{Full: true, Advice: "The disk is full. Free space on it."}
	case codes.SQLITE_READONLY:
		return &Verdict{Full: true, Advice: adviceFile}
	case codes.SQLITE_CANTOPEN, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		return &Verdict{Advice: adviceFile}
	case codes.SQLITE_NOTADB:
		return &Verdict{Advice: "The file is not a database of SQLite. Name another file with: store sqlite <file>"}
	case codes.SQLITE_CORRUPT:
		return &Verdict{Advice: "The database is damaged. Stop Caddy, and restore the file from a backup, or move it away together with its -wal and -shm, to begin with an empty one."}
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return &Verdict{Advice: "Another process has locked the database for a long time. Find out which program besides Caddy uses the file."}
	case codes.SQLITE_IOERR:
		return &Verdict{Unsure: true, Advice: "The disk does not work as it should. Look at the log of the system."}
	case codes.SQLITE_INTERRUPT:
		return &Verdict{Unsure: true, Advice: AdviceSlow}
	case codes.SQLITE_ERROR:
		return &Verdict{Tables: true, Advice: "The file has not the tables of the bridge. Name another file with: store sqlite <file>, or restore this one from a backup."}
	case codes.SQLITE_NOMEM:
		return &Verdict{Advice: "The process has not enough memory."}
	}
	return nil
}

// EndsTransaction reports whether SQLite may have given up the transaction because of an error of a statement.
func EndsTransaction(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || slices.Contains([]int{
		codes.SQLITE_FULL, codes.SQLITE_IOERR, codes.SQLITE_NOMEM, codes.SQLITE_BUSY, codes.SQLITE_INTERRUPT, codes.SQLITE_CORRUPT,
	}, Code(err))
}
