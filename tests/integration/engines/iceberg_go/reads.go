package main

import (
	"context"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

type task struct {
	Identifier table.Identifier           `json:"identifier"`
	Columns    []string                   `json:"columns"`
	Filters    map[string]json.RawMessage `json:"filters"`
}

type answers struct {
	Rows   any            `json:"rows"`
	Counts map[string]any `json:"counts"`
}

// read asks for all rows, their number, a sum, and the number and sum of what each filter keeps.
func (t task) read(ctx context.Context, cat *rest.Catalog) answers {
	answered := answers{Counts: map[string]any{}}
	loaded, err := cat.LoadTable(ctx, t.Identifier)
	if err != nil {
		answered.Rows, answered.Counts["all"], answered.Counts["sum"] = err.Error(), err.Error(), err.Error()
		for name := range t.Filters {
			answered.Counts[name] = err.Error()
		}
		return answered
	}
	answered.Rows = answer(func() (any, error) { return scan(ctx, loaded, t.Columns, nil) })
	answered.Counts["all"] = answer(func() (any, error) {
		rows, err := scan(ctx, loaded, t.Columns[:1], nil)
		return []int{len(rows), 0}, err
	})
	answered.Counts["sum"] = answer(func() (any, error) { return total(ctx, loaded, nil) })
	for name, text := range t.Filters {
		answered.Counts[name] = answer(func() (any, error) {
			filter, err := iceberg.ParseExpr(text, loaded.Schema())
			if err != nil {
				return nil, err
			}
			return total(ctx, loaded, filter)
		})
	}
	return answered
}

// total is the number of rows that the filter keeps, and the sum of their quantities.
func total(ctx context.Context, loaded *table.Table, filter iceberg.BooleanExpression) (any, error) {
	rows, err := scan(ctx, loaded, []string{"qty"}, filter)
	if err != nil {
		return nil, err
	}
	var sum int64
	for _, row := range rows {
		switch quantity := row[0].(type) {
		case int32:
			sum += int64(quantity)
		case int64:
			sum += quantity
		}
	}
	return []int64{int64(len(rows)), sum}, nil
}

func scan(
	ctx context.Context, loaded *table.Table, columns []string, filter iceberg.BooleanExpression,
) ([][]any, error) {
	options := []table.ScanOption{table.WithSelectedFields(columns...)}
	if filter != nil {
		options = append(options, table.WithRowFilter(filter))
	}
	read, err := loaded.Scan(options...).ToArrowTable(ctx)
	if err != nil {
		return nil, err
	}
	defer read.Release()
	return listRows(read, columns), nil
}

func listRows(read arrow.Table, columns []string) [][]any {
	rows := make([][]any, read.NumRows())
	for _, name := range columns {
		column := read.Column(read.Schema().FieldIndices(name)[0])
		at := 0
		for _, chunk := range column.Data().Chunks() {
			for i := range chunk.Len() {
				rows[at] = append(rows[at], value(chunk, i))
				at++
			}
		}
	}
	return rows
}

func value(values arrow.Array, i int) any {
	if encoded, ok := values.(*array.Dictionary); ok {
		return value(encoded.Dictionary(), encoded.GetValueIndex(i))
	}
	return values.GetOneForMarshal(i)
}
