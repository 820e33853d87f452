package process

import "io/fs"

// Exposed reports whether other users can access a file with secrets, by its mode and owner. Its owner
// may; and the group of a file of root may read it, unless root runs the process: so Kubernetes, for
// one, gives secrets to a process. On Windows, which has no modes, it returns false.
func Exposed(info fs.FileInfo) bool {
	owner, user, ok := ownerAndUser(info)
	return ok && exposed(info.Mode(), owner, user)
}

// exposed is Exposed for a file of an owner and a process of a user.
func exposed(mode fs.FileMode, owner, user int) bool {
	if owner == 0 && user != 0 {
		return mode.Perm()&0o037 != 0
	}
	return mode.Perm()&0o077 != 0
}
