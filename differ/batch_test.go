package main

import "testing"

// The statements of a batch are explained one by one: a known difference of one
// of them does not hide a fault of another.
func TestStatementsOfABatch(t *testing.T) {
	const (
		many   = `{"Error":{"Code":"ValidationError","Message":"Select statements within BatchExecuteStatement must specify the primary key in the where clause."}}`
		single = `{"Error":{"Code":"ValidationError","Message":"Only single item select is supported"}}`
		found  = `{"TableName":"OrdersA","Item":{"pk":{"S":"a"}}}`
		none   = `{"TableName":"OrdersA"}`
		failed = `{"Error":{"Code":"ValidationError","Message":"An operand in the update expression has an incorrect data type"}}`
		path   = `{"Error":{"Code":"ValidationError","Message":"The document path provided in the update expression is invalid for update"}}`
	)
	for _, c := range []struct {
		name                  string
		stator, local, oxide  [2]string
		explained, explained2 bool // for DynamoDB Local and dynoxide
	}{
		{"DynamoDB Local's message for a SELECT of several items", [2]string{many, found}, [2]string{single, found}, [2]string{none, found}, true, true},
		{"another item of a second statement", [2]string{many, none}, [2]string{single, found}, [2]string{none, found}, false, false},
		{"another code", [2]string{`{"Error":{"Code":"ResourceNotFound","Message":"Select statements within BatchExecuteStatement must specify the primary key in the where clause."}}`, found},
			[2]string{single, found}, [2]string{none, found}, false, false},
		{"a message of another fault, by DynamoDB Local alone", [2]string{failed, found}, [2]string{single, found}, [2]string{none, found}, false, true},
		{"the first of several faults of an update", [2]string{failed, found}, [2]string{path, found}, [2]string{failed, found}, true, true},
		{"a result where both witnesses have an error", [2]string{none, found}, [2]string{failed, found}, [2]string{failed, found}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := step{Op: "BatchExecuteStatement", Body: object{"Statements": []any{object{"Statement": "SELECT a"}, object{"Statement": "SELECT b"}}}}
			batch := func(r [2]string) *answer {
				a := makeAnswer(200, reply(t, `{"Responses":[`+r[0]+","+r[1]+"]}"))
				return &a
			}
			explained := map[string]bool{nameLocal: true, nameDynoxide: true}
			for _, f := range (exchange{st, []*answer{batch(c.stator), batch(c.local), batch(c.oxide)}}).compare() {
				explained[f.Witness] = explain(f) != nil
			}
			if explained[nameLocal] != c.explained || explained[nameDynoxide] != c.explained2 {
				t.Errorf("explained are %v, want %t and %t", explained, c.explained, c.explained2)
			}
		})
	}
}

// Units are explained only as far as the witness's own rule explains them.
func TestUnitsOfIndexes(t *testing.T) {
	transaction := func(table, first, second float64) answer {
		return answer{Status: 200, Body: object{"ConsumedCapacity": []any{object{"TableName": "OrdersA", "CapacityUnits": table + first + second,
			"Table": object{"CapacityUnits": table}, "LocalSecondaryIndexes": object{"lsi1": object{"CapacityUnits": first}, "lsi2": object{"CapacityUnits": second}}}}}}
	}
	put := func(table float64, indexes object) answer {
		total := table
		for _, x := range indexes {
			total += unitsOf(x)
		}
		return answer{Status: 200, Body: object{"ConsumedCapacity": object{"CapacityUnits": total, "Table": object{"CapacityUnits": table}, "GlobalSecondaryIndexes": indexes}}}
	}
	get := func(units float64) answer {
		return answer{Status: 200, Body: object{"ConsumedCapacity": []any{object{"TableName": "OrdersA", "CapacityUnits": units}}, "Responses": object{"OrdersA": []any{object{}}}}}
	}
	three := step{Op: "BatchGetItem", Body: object{"RequestItems": object{"OrdersA": object{"Keys": []any{object{}, object{}, object{}}}}}}
	one := object{"gsi1": object{"CapacityUnits": 1.0}}
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"each index twice", chargesIndexesTwice(&finding{Stator: transaction(2, 2, 1), Other: transaction(2, 4, 2)}), true},
		{"one index not twice", chargesIndexesTwice(&finding{Stator: transaction(2, 2, 1), Other: transaction(2, 4, 1)}), false},
		{"another table", chargesIndexesTwice(&finding{Stator: transaction(1, 2, 1), Other: transaction(2, 4, 2)}), false},
		{"missing items for nothing", chargesFoundItems(&finding{Step: three, Stator: get(1.5), Other: get(0.5)}), true},
		{"one of two missing items for nothing", chargesFoundItems(&finding{Step: three, Stator: get(1.5), Other: get(1)}), false},
		{"one index more", chargesMoreIndexes(&finding{Stator: put(1, object{}), Other: put(1, one)}), true},
		{"one index more, and another table", chargesMoreIndexes(&finding{Stator: put(2, object{}), Other: put(1, one)}), false},
		{"more for an index that both charge", chargesMoreIndexes(&finding{Stator: put(1, one), Other: put(1, object{"gsi1": object{"CapacityUnits": 2.0}})}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", c.name, c.got)
		}
	}
}
