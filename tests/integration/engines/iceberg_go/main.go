// Reads keyed tables by iceberg-go, and writes to them, as a program of its own.
//
// Standard input is JSON: the catalog, the tables to read with their columns and filters, and the writes. Prints JSON:
// for each table `rows` and `counts`, for each write null; in the place of an answer is the error as a string.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

type request struct {
	URL        string  `json:"url"`
	Credential string  `json:"credential"`
	TokenURL   string  `json:"token_url"`
	Token      string  `json:"token"`
	Create     string  `json:"create"`
	Tables     []task  `json:"tables"`
	Writes     []write `json:"writes"`
}

type response struct {
	Tables map[string]answers `json:"tables"`
	Writes []any              `json:"writes"`
}

func main() {
	var sent request
	exitOn(json.NewDecoder(os.Stdin).Decode(&sent))
	ctx := context.Background()
	cat, err := connect(ctx, sent)
	exitOn(err)
	if sent.Create != "" {
		exitOn(cat.CreateNamespace(ctx, table.Identifier{sent.Create}, nil))
	}
	answered := response{Tables: map[string]answers{}, Writes: []any{}}
	for _, entry := range sent.Writes {
		answered.Writes = append(answered.Writes, answer(func() (any, error) { return nil, entry.run(ctx, cat) }))
	}
	for _, entry := range sent.Tables {
		answered.Tables[strings.Join(entry.Identifier, ".")] = entry.read(ctx, cat)
	}
	exitOn(json.NewEncoder(os.Stdout).Encode(answered))
}

func connect(ctx context.Context, sent request) (*rest.Catalog, error) {
	options := []rest.Option{rest.WithWarehouseLocation("lake")}
	if sent.Credential != "" {
		address, err := url.Parse(sent.TokenURL)
		if err != nil {
			return nil, err
		}
		options = append(options, rest.WithCredential(sent.Credential), rest.WithAuthURI(address))
	}
	if sent.Token != "" {
		options = append(options, rest.WithOAuthToken(sent.Token))
	}
	return rest.NewCatalog(ctx, "lake", sent.URL, options...)
}

// answer is what the question gives, or its error. iceberg-go panics where it does not expect a file.
func answer(question func() (any, error)) (result any) {
	defer func() {
		if problem := recover(); problem != nil {
			result = fmt.Sprintf("panic: %v", problem)
		}
	}()
	value, err := question()
	if err != nil {
		return err.Error()
	}
	return value
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
