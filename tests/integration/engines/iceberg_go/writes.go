package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

// write appends rows, or deletes those that a filter keeps.
type write struct {
	Identifier table.Identifier  `json:"identifier"`
	Rows       []json.RawMessage `json:"rows"`
	Delete     json.RawMessage   `json:"delete"`
}

func (w write) run(ctx context.Context, cat *rest.Catalog) error {
	loaded, err := cat.LoadTable(ctx, w.Identifier)
	if err != nil {
		return err
	}
	if w.Delete == nil {
		return w.append(ctx, loaded)
	}
	filter, err := iceberg.ParseExpr(w.Delete, loaded.Schema())
	if err != nil {
		return err
	}
	_, err = loaded.Delete(ctx, filter, nil)
	return err
}

func (w write) append(ctx context.Context, loaded *table.Table) error {
	schema, err := table.SchemaToArrowSchema(loaded.Schema(), nil, true, false)
	if err != nil {
		return err
	}
	lines := make([]string, len(w.Rows))
	for i, row := range w.Rows {
		lines[i] = string(row)
	}
	rows, _, err := array.RecordFromJSON(
		memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(lines, ",")+"]"),
	)
	if err != nil {
		return err
	}
	defer rows.Release()
	sent := array.NewTableFromRecords(schema, []arrow.RecordBatch{rows})
	defer sent.Release()
	_, err = loaded.AppendTable(ctx, sent, 1024, nil)
	return err
}
