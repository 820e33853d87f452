package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	var asJSON, asSBOM bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asSBOM {
				return writeSBOM(cmd.OutOrStdout())
			}
			v := version()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			return v.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&asSBOM, "sbom", false, "print the modules in this binary, as a software bill of materials in CycloneDX JSON")
	cmd.MarkFlagsMutuallyExclusive("json", "sbom")
	return cmd
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func (v versionInfo) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "stator %s (%s, %s)\n", v.Version, v.Commit, v.Go)
	return err
}

// version is taken from the build information of the binary.
func version() versionInfo {
	v := versionInfo{Version: "(devel)", Commit: "unknown commit", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
