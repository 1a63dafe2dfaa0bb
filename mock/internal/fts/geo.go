package fts

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

var (
	errNoDate  = errors.New("not a date")
	errNoPoint = errors.New("not a location")
)

// point is a place on the earth, in degrees.
type point struct{ lon, lat float64 }

func (p point) valid() bool { return math.Abs(p.lon) <= 180 && math.Abs(p.lat) <= 90 }

// pointOf reads [longitude, latitude], "latitude,longitude", or an object with lat and lon or lng.
func pointOf(v any) (p point, ok bool) {
	switch v := v.(type) {
	case []any:
		if len(v) != 2 {
			return p, false
		}
		lon, isLon := v[0].(float64)
		lat, isLat := v[1].(float64)
		p, ok = point{lon, lat}, isLon && isLat
	case string:
		lat, lon, both := strings.Cut(v, ",")
		x, errX := strconv.ParseFloat(strings.TrimSpace(lon), 64)
		y, errY := strconv.ParseFloat(strings.TrimSpace(lat), 64)
		p, ok = point{x, y}, both && errX == nil && errY == nil
	case map[string]any:
		lat, isLat := v["lat"].(float64)
		lon, isLon := v["lon"].(float64)
		if !isLon {
			lon, isLon = v["lng"].(float64)
		}
		p, ok = point{lon, lat}, isLon && isLat
	}
	return p, ok && p.valid()
}

// units are lengths in meters.
var units = map[string]float64{
	"in": 0.0254, "inch": 0.0254, "yd": 0.9144, "yards": 0.9144, "ft": 0.3048, "feet": 0.3048, "km": 1000,
	"kilometers": 1000, "nm": 1852, "nauticalmiles": 1852, "mm": 0.001, "millimeters": 0.001, "cm": 0.01,
	"centimeters": 0.01, "mi": 1609.344, "miles": 1609.344, "m": 1, "meters": 1, "": 1,
}

// meters reads a length such as 11km.
func meters(s string) (float64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	unit, ok := units[s[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(n) {
		return 0, errors.New("not a distance: " + s)
	}
	return n * unit, nil
}

// earthRadius is the mean one, in meters.
const earthRadius = 6371008.8

// distance is the length of the great circle between two points, in meters.
func distance(a, b point) float64 {
	rad := math.Pi / 180
	lat := math.Sin((b.lat - a.lat) * rad / 2)
	lon := math.Sin((b.lon - a.lon) * rad / 2)
	h := lat*lat + math.Cos(a.lat*rad)*math.Cos(b.lat*rad)*lon*lon
	return 2 * earthRadius * math.Asin(math.Min(1, math.Sqrt(h)))
}

// within reports whether a point is in a box, which may cross the 180th meridian.
func (p point) within(topLeft, bottomRight point) bool {
	if p.lat > topLeft.lat || p.lat < bottomRight.lat {
		return false
	}
	if topLeft.lon <= bottomRight.lon {
		return p.lon >= topLeft.lon && p.lon <= bottomRight.lon
	}
	return p.lon >= topLeft.lon || p.lon <= bottomRight.lon
}

// inside reports whether a point is in a polygon, by the number of edges that lie east of it.
func (p point) inside(polygon []point) (in bool) {
	last := polygon[len(polygon)-1]
	for _, next := range polygon {
		if (next.lat > p.lat) != (last.lat > p.lat) &&
			p.lon < (last.lon-next.lon)*(p.lat-next.lat)/(last.lat-next.lat)+next.lon {
			in = !in
		}
		last = next
	}
	return in
}
