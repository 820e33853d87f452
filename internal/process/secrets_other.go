//go:build !unix

package process

import "io/fs"

func ownerAndUser(fs.FileInfo) (owner, user int, ok bool) { return 0, 0, false }
