package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

const tileHeight = 8

// directory reads the files of an exported log.
type directory string

// path of a tile: the checksum database has the height in it, tlog-tiles has not.
func (d directory) path(tile tlog.Tile) string {
	if tile.L == -1 {
		tile.L = 0
		return filepath.Join(string(d), strings.Replace(tile.Path(), "tile/8/0/", "tile/entries/", 1))
	}
	return filepath.Join(string(d), strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
}

// Height, ReadTiles and SaveTiles make a directory a tlog.TileReader.
func (d directory) Height() int { return tileHeight }

func (d directory) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		bytes, err := os.ReadFile(d.path(tile))
		if err != nil {
			return nil, err
		}
		data[i] = bytes
	}
	return data, nil
}

func (d directory) SaveTiles([]tlog.Tile, [][]byte) {}

// entries gives each leaf of a log of this size, in order.
func (d directory) entries(size int64, visit func(index int64, entry []byte) error) error {
	for first := int64(0); first < size; first += 1 << tileHeight {
		width := int(min(size-first, 1<<tileHeight))
		path := d.path(tlog.Tile{H: tileHeight, L: -1, N: first >> tileHeight, W: width})
		bundle, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i := range width {
			if len(bundle) < 2 || len(bundle) < 2+(int(bundle[0])<<8|int(bundle[1])) {
				return fmt.Errorf("leaf %d: the bundle %s is short", first+int64(i), path)
			}
			length := int(bundle[0])<<8 | int(bundle[1])
			if err := visit(first+int64(i), bundle[2:2+length]); err != nil {
				return err
			}
			bundle = bundle[2+length:]
		}
		if len(bundle) > 0 {
			return fmt.Errorf("leaf %d: the bundle %s is too long", first+int64(width)-1, path)
		}
	}
	return nil
}
