package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/doc"
)

func modelDocCommand() *cobra.Command {
	var html, markdown, prices string
	cmd := &cobra.Command{
		Use:   "doc FILE",
		Short: "Document a model as Markdown or as one HTML page",
		Long: `Document a model: the tables with example rows, each index with the patterns that it
serves, the patterns with their requests and costs, and diagrams of the status
machines and of the heat. The HTML is one self-contained file. Without --html and
--markdown, the command prints Markdown.

  stator model doc shop.model.yaml --html shop.html --markdown docs/shop.md`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPrices(prices)
			if err != nil {
				return err
			}
			m, err := readModel(args[0])
			if err != nil {
				return err
			}
			page := doc.New(m, p)
			if html == "" && markdown == "" {
				return page.Markdown(cmd.OutOrStdout())
			}
			if err := writeDocument(html, page.HTML); err != nil {
				return err
			}
			return writeDocument(markdown, page.Markdown)
		},
	}
	cmd.Flags().StringVar(&html, "html", "", "file to write one HTML page to")
	cmd.Flags().StringVar(&markdown, "markdown", "", "file to write Markdown to")
	cmd.Flags().StringVar(&prices, "prices", "", "price file to use instead of the built-in prices")
	return cmd
}

// writeDocument writes a document to path, or nothing if path is empty. If the
// document cannot be made, it does not touch the file.
func writeDocument(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
