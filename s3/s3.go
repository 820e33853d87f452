// Package s3 lets a program that embeds stator store backups, exports and imports in S3, or
// in an object store that has its API. Import it for its effect:
//
//	import _ "github.com/stator-db/stator/s3"
//
// Then Options.Backups and Options.Buckets take URLs such as
//
//	s3://bucket/folder?region=eu-west-1
//
// with the parameters region, profile, endpoint and use_path_style. Credentials are found as
// the AWS CLI finds them. It is a package of its own so that programs without it do not
// depend on the SDK of S3.
package s3

import _ "github.com/stator-db/stator/internal/blob/s3" // it registers s3:// URLs
