package rules

import (
	"context"
	"fmt"
)

// schema is understood by both databases.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS goal_rules (
		goal_id      VARCHAR(60) PRIMARY KEY,
		title        VARCHAR(60) NOT NULL,
		position     INTEGER NOT NULL,
		special_rate VARCHAR(10) NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS goal_targets (
		goal_id       VARCHAR(60) NOT NULL REFERENCES goal_rules (goal_id),
		segment       VARCHAR(60) NOT NULL,
		target_amount VARCHAR(20) NOT NULL,
		PRIMARY KEY (goal_id, segment))`,
	`CREATE TABLE IF NOT EXISTS goal_titles (
		goal_id  VARCHAR(60) NOT NULL REFERENCES goal_rules (goal_id),
		language VARCHAR(20) NOT NULL,
		title    VARCHAR(60) NOT NULL,
		PRIMARY KEY (goal_id, language))`,
	`CREATE TABLE IF NOT EXISTS products (
		product VARCHAR(60) PRIMARY KEY,
		goal_id VARCHAR(60) NOT NULL REFERENCES goal_rules (goal_id))`,
}

// builtIn are the rules of a new database.
var builtIn = []string{
	`INSERT INTO goal_rules VALUES
		('SAVINGS_ACCOUNT', 'Savings account', 1, '0.08'),
		('GOVERNMENT_BONDS', 'Government bonds', 2, '0.12'),
		('CERTIFICATE_OF_DEPOSIT', 'Certificate of deposit', 3, '0.14')`,
	`INSERT INTO goal_titles VALUES
		('SAVINGS_ACCOUNT', 'es', 'Cuenta de ahorro'), ('SAVINGS_ACCOUNT', 'pt-BR', 'Poupança'),
		('GOVERNMENT_BONDS', 'es', 'Bonos del Estado'), ('GOVERNMENT_BONDS', 'pt-BR', 'Tesouro Direto'),
		('CERTIFICATE_OF_DEPOSIT', 'es', 'Certificado de depósito'), ('CERTIFICATE_OF_DEPOSIT', 'pt-BR', 'CDB')`,
	`INSERT INTO goal_targets VALUES
		('SAVINGS_ACCOUNT', 'STARTER', '200.00'), ('SAVINGS_ACCOUNT', 'CLASSIC', '500.00'), ('SAVINGS_ACCOUNT', 'PREMIUM', '1500.00'),
		('GOVERNMENT_BONDS', 'STARTER', '400.00'), ('GOVERNMENT_BONDS', 'CLASSIC', '1500.00'), ('GOVERNMENT_BONDS', 'PREMIUM', '4000.00'),
		('CERTIFICATE_OF_DEPOSIT', 'STARTER', '600.00'), ('CERTIFICATE_OF_DEPOSIT', 'CLASSIC', '2000.00'), ('CERTIFICATE_OF_DEPOSIT', 'PREMIUM', '6000.00')`,
	`INSERT INTO products VALUES
		('SAV', 'SAVINGS_ACCOUNT'), ('GOV', 'GOVERNMENT_BONDS'), ('CDB', 'CERTIFICATE_OF_DEPOSIT')`,
}

// Init creates the missing tables, and fills them with the built-in rules if they are
// empty.
func (s *Source) Init(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("create the tables of the rules: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, step := range schema {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return fmt.Errorf("create the tables of the rules: %w", err)
		}
	}
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM goal_rules`).Scan(&n); err != nil {
		return fmt.Errorf("count the rules: %w", err)
	}
	if n == 0 {
		for _, step := range builtIn {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("write the built-in rules: %w", err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("create the tables of the rules: %w", err)
	}
	return nil
}
