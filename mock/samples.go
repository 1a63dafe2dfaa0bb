package mock

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// BeerBucket is the bucket of BeerSample.
const BeerBucket = "beer-sample"

// The sample has as many documents as a server's, and of the same types, but they are made here: 1,412 breweries, and
// 5,891 beers of these.
const (
	breweries = 1412
	beers     = 5891
)

// beerViews are the views that clients of the sample ask for.
const beerViews = `{"views":{
	"brewery_beers":{"map":"function (doc, meta) { if (doc.type == 'brewery') { emit([meta.id], null); } ` +
	`else if (doc.type == 'beer' && doc.brewery_id) { emit([doc.brewery_id, meta.id], null); } }"},
	"by_location":{"map":"function (doc, meta) { if (doc.country && doc.state && doc.city) ` +
	`{ emit([doc.country, doc.state, doc.city], 1); } else if (doc.country && doc.state) ` +
	`{ emit([doc.country, doc.state], 1); } else if (doc.country) { emit([doc.country], 1); } }","reduce":"_count"}}}`

// BeerSample are the documents and the views of the bucket beer-sample, as a server's POST /sampleBuckets/install makes
// them: 1,412 breweries and 5,891 beers. Their values are made up and are always the same.
func BeerSample() Fixtures {
	pick := func(i int, list ...string) string { return list[i%len(list)] }
	b := BucketFixture{
		Documents: make(map[string]any, breweries+beers),
		Designs:   map[string]json.RawMessage{"beer": json.RawMessage(beerViews)},
	}
	brewery := func(i int) string { return fmt.Sprintf("brewery_%04d", i%breweries) }
	for i := range breweries {
		b.Documents[brewery(i)] = map[string]any{
			"type": "brewery", "name": "Brewery " + strconv.Itoa(i), "code": strconv.Itoa(10_000 + i),
			"city": pick(i, "Northport", "Easton", "Southfield", "Westbury", "Midtown"), "phone": "", "website": "",
			"state":   pick(i/5, "Upland", "Lowland", "Shore"),
			"country": pick(i/15, "Arcadia", "Borduria", "Costaguana", "Drusselstein"),
			"address": []string{strconv.Itoa(i) + " Main Street"}, "description": "", "updated": "2010-07-22 20:00:20",
			"geo": map[string]any{
				"accuracy": "ROOFTOP", "lat": float64(i%180) - 90 + 0.5, "lon": float64(i%360) - 180 + 0.5,
			},
		}
	}
	for i := range beers {
		b.Documents[fmt.Sprintf("%s-beer_%04d", brewery(i), i)] = map[string]any{
			"type": "beer", "name": "Beer " + strconv.Itoa(i), "brewery_id": brewery(i), "abv": float64(i%120) / 10,
			"ibu": i % 100, "srm": 0, "upc": 0, "description": "", "updated": "2010-07-22 20:00:20",
			"style":    pick(i, "Pale Ale", "Stout", "Porter", "Lager", "Wheat", "Bitter"),
			"category": pick(i/2, "Ale", "Lager", "Other"),
		}
	}
	return Fixtures{Buckets: map[string]BucketFixture{BeerBucket: b}}
}
