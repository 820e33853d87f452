package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
)

// kafkaFlags are the flags of a command that uses Kafka.
type kafkaFlags struct {
	addresses string
	kafka     stream.Kafka
	password  string // file
}

// passwordVariable is the environment variable with the password for Kafka.
const passwordVariable = "GOALS_KAFKA_PASSWORD"

func (k *kafkaFlags) flags(f *pflag.FlagSet, otherwise string) {
	f.StringVar(&k.addresses, "kafka", "", "addresses of Kafka brokers, separated by commas, as tls://host:port for TLS"+otherwise)
	f.StringVar(&k.kafka.SASL, "kafka-sasl", "", "SASL mechanism: "+strings.Join(stream.Mechanisms, ", "))
	f.StringVar(&k.kafka.User, "kafka-user", "", "user for SASL")
	f.StringVar(&k.password, "kafka-password-file", "", "file with the password for SASL; the default is the environment variable "+passwordVariable)
	f.StringVar(&k.kafka.CA, "kafka-ca", "", "file with certificates (PEM) of Kafka's authority; the default is the system's")
	f.StringVar(&k.kafka.Cert, "kafka-cert", "", "file with a client certificate (PEM)")
	f.StringVar(&k.kafka.Key, "kafka-key", "", "file with the key of the client certificate (PEM)")
}

// settings returns how Kafka is reached.
func (k *kafkaFlags) settings() (stream.Kafka, error) {
	kafka := k.kafka
	if k.addresses == "" {
		return kafka, command.Usagef("--kafka is missing: the addresses of the brokers")
	}
	kafka.Brokers = strings.Split(k.addresses, ",")
	kafka.Password = os.Getenv(passwordVariable)
	if k.password != "" {
		b, err := os.ReadFile(k.password)
		if err != nil {
			return kafka, fmt.Errorf("read the password for Kafka: %w", err)
		}
		kafka.Password = strings.TrimRight(string(b), "\r\n")
	}
	if err := kafka.Check(); err != nil {
		return kafka, command.Usagef("%w; see --kafka-sasl, --kafka-user and --kafka-password-file", err)
	}
	return kafka, nil
}
