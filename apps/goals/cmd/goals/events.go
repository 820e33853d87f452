package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
)

func depositCommand() *cobra.Command {
	kafka := new(kafkaFlags)
	var person, product, balance string
	c := &cobra.Command{
		Use:   "deposit",
		Short: "Send a deposit event to Kafka, as the bank's systems do",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			money, err := goals.ParseMoney(balance)
			if err != nil {
				return command.Usage(err)
			}
			return send(c, kafka, goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: product, OccurredAt: now().UTC(), Balance: &money})
		},
	}
	f := c.Flags()
	kafka.flags(f, "")
	f.StringVar(&person, "person", "", "the person's id")
	f.StringVar(&product, "product", "SAV", "a product of the rules")
	f.StringVar(&balance, "balance", "", "the balance after the deposit")
	return c
}

func reconcileCommand() *cobra.Command {
	kafka := new(kafkaFlags)
	var person, product, deposit, at, outcome, balance string
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Send the outcome of a deposit's reconciliation to Kafka",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			when, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				return command.Usagef("--deposited-at is %q, but must be what `goals deposit` printed as occurredAt", at)
			}
			e := goals.Event{
				Type: goals.Reconciliation, EventID: uuid.NewString(), PersonID: person, Product: product, OccurredAt: now().UTC(),
				Outcome: strings.ToUpper(outcome), Deposit: &goals.DepositRef{EventID: deposit, OccurredAt: when},
			}
			if balance != "" {
				money, err := goals.ParseMoney(balance)
				if err != nil {
					return command.Usage(err)
				}
				e.Balance = &money
			}
			return send(c, kafka, e)
		},
	}
	f := c.Flags()
	kafka.flags(f, "")
	f.StringVar(&person, "person", "", "the person's id")
	f.StringVar(&product, "product", "SAV", "a product of the rules")
	f.StringVar(&deposit, "deposit", "", "the deposit's event id")
	f.StringVar(&at, "deposited-at", "", "the deposit's occurredAt")
	f.StringVar(&outcome, "outcome", "failed", "failed or confirmed")
	f.StringVar(&balance, "balance", "", "the balance after a failed reconciliation: without its deposit, with all others")
	return c
}

// send validates an event as the consumer does, sends it and prints it.
func send(c *cobra.Command, flags *kafkaFlags, e goals.Event) error {
	kafka, err := flags.settings()
	if err != nil {
		return err
	}
	b, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	if _, err := goals.ParseEvent(b, now()); err != nil {
		return command.Usage(err)
	}
	p, err := stream.NewProducer(c.Context(), kafka, stream.DefaultTopics)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Send(c.Context(), e); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), string(b))
	return nil
}

func brokerCommand(log *slog.Logger) *cobra.Command {
	var address, folder string
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded Kafka broker alone, to try the parts as separate processes",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := stream.StartBroker(folder, address, stream.DefaultTopics)
			if err != nil {
				return err
			}
			defer b.Close()
			log.Info("the broker listens", "address", strings.Join(b.Addresses(), ","))
			<-c.Context().Done()
			return nil
		},
	}
	c.Flags().StringVar(&address, "listen", "127.0.0.1:9092", "loopback address of the broker")
	c.Flags().StringVar(&folder, "data", "", "folder for the events (default in memory)")
	return c
}

func rulesCommand() *cobra.Command {
	var where string
	var asJSON bool
	c := &cobra.Command{
		Use:   "rules",
		Short: "Show the business rules",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			source, err := rules.Open(c.Context(), where)
			if err != nil {
				return err
			}
			defer func() { _ = source.Close() }()
			set, err := source.Load(c.Context())
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(set)
			}
			fmt.Fprintf(out, "%-24s %-8s %-10s %12s\n", "GOAL", "RATE", "SEGMENT", "TARGET")
			for _, g := range set.Goals {
				for _, segment := range g.Segments() {
					fmt.Fprintf(out, "%-24s %-8s %-10s %12s\n", g.ID, g.Rate, segment, g.Targets[segment])
				}
			}
			for _, product := range slices.Sorted(maps.Keys(set.Products)) {
				fmt.Fprintf(out, "product %s counts for %s\n", product, set.Goals[set.Products[product]].ID)
			}
			return nil
		},
	}
	c.Flags().StringVar(&where, "rules", "", "a postgres:// URL or a SQLite file; the default is the built-in rules")
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	made := &cobra.Command{
		Use:   "init",
		Short: "Create the tables of the rules, and fill empty ones with the built-in rules",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if where == "" {
				return command.Usagef("--rules is missing: a postgres:// URL or a SQLite file")
			}
			source, err := rules.Open(c.Context(), where)
			if err != nil {
				return err
			}
			defer func() { _ = source.Close() }()
			return source.Init(c.Context())
		},
	}
	made.Flags().StringVar(&where, "rules", "", "a postgres:// URL or a SQLite file")
	c.AddCommand(made)
	return c
}
