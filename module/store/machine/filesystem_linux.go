package machine

import (
	"io/fs"
	"syscall"
)

// networkFileSystems are the numbers of statfs(2).
var networkFileSystems = map[uint32]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x517b: "SMB", 0x65735546: "FUSE", 0x00c36400: "Ceph", 0x5346414f: "AFS",
}

// CheckFileSystem refuses a folder whose files are on another machine.
func CheckFileSystem(folder string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return &fs.PathError{Op: "statfs", Path: folder, Err: err}
	}
	if name := networkFileSystems[uint32(stat.Type)]; name != "" { //nolint:gosec // the numbers have 32 bits
		return OnNetwork(folder, name)
	}
	return nil
}
