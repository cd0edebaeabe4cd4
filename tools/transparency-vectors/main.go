// Command transparency-vectors works with golang.org/x/mod/sumdb/{tlog,note}, a transparency-log library that is not ours.
//
//	transparency-vectors make FILE             writes vectors of tiles, proofs and a signed checkpoint
//	transparency-vectors check DIR NAME KEYHEX verifies an export in tiles: signature, every tile, every entry, proofs
package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

type store []tlog.Hash

func (s *store) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at >= int64(len(*s)) {
			return nil, fmt.Errorf("no hash %d", at)
		}
		out[i] = (*s)[at]
	}
	return out, nil
}

// tilePath is the tlog-tiles path of a tile: the library's own has the height in front.
func tilePath(t tlog.Tile) string {
	return "tile/" + strings.TrimPrefix(t.Path(), "tile/8/")
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type proofVector struct {
	Index int64    `json:"index"`
	Size  int64    `json:"size"`
	Proof []string `json:"proof"`
}

// tileVector sums up the tiles of one size: of each its path, a newline and its bytes.
type tileVector struct {
	Count  int    `json:"count"`
	Last   string `json:"last"`
	Sha256 string `json:"sha256"`
}

type vectors struct {
	Comment     string                  `json:"comment"`
	Sizes       []int64                 `json:"sizes"`
	Roots       map[string]string       `json:"roots"`
	Tiles       map[string]tileVector   `json:"tiles"`
	Inclusion   []proofVector           `json:"inclusion"`
	Consistency []proofVector           `json:"consistency"`
	Name        string                  `json:"name"`
	PublicKey   string                  `json:"publicKey"`
	Note        string                  `json:"note"`
}

func hexes(hashes []tlog.Hash) []string {
	out := []string{}
	for _, h := range hashes {
		out = append(out, hex.EncodeToString(h[:]))
	}
	return out
}

func makeVectors(file string) {
	sizes := []int64{1, 2, 3, 255, 256, 257, 512, 1000, 65535, 65536, 65537, 70000}
	v := vectors{
		Comment: "made by tools/transparency-vectors with golang.org/x/mod/sumdb; entry i is the text of i in decimal",
		Sizes:   sizes, Roots: map[string]string{}, Tiles: map[string]tileVector{}, Name: "example.com/log",
	}
	var s store
	next := 0
	for i := int64(0); i <= 70000; i++ {
		for next < len(sizes) && sizes[next] == i {
			describe(&v, &s, i)
			next++
		}
		hashes, err := tlog.StoredHashes(i, []byte(strconv.FormatInt(i, 10)), &s)
		must(err)
		s = append(s, hashes...)
	}
	for _, pair := range [][2]int64{{0, 1}, {0, 257}, {256, 257}, {255, 1000}, {999, 1000}, {0, 70000}, {65535, 70000}, {65536, 70000}, {69999, 70000}, {12345, 65537}} {
		proof, err := tlog.ProveRecord(pair[1], pair[0], &s)
		must(err)
		v.Inclusion = append(v.Inclusion, proofVector{pair[0], pair[1], hexes(proof)})
	}
	for _, pair := range [][2]int64{{1, 2}, {1, 70000}, {255, 256}, {256, 257}, {257, 1000}, {512, 1000}, {65535, 65537}, {65536, 70000}, {65537, 70000}, {1000, 70000}, {69999, 70000}, {70000, 70000}} {
		proof, err := tlog.ProveTree(pair[1], pair[0], &s)
		must(err)
		v.Consistency = append(v.Consistency, proofVector{pair[0], pair[1], hexes(proof)})
	}
	signNote(&v, &s)
	text, err := json.MarshalIndent(v, "", " ")
	must(err)
	must(os.WriteFile(file, append(text, '\n'), 0o644))
}

func describe(v *vectors, s *store, size int64) {
	name := strconv.FormatInt(size, 10)
	root, err := tlog.TreeHash(size, s)
	must(err)
	v.Roots[name] = hex.EncodeToString(root[:])
	sum := sha256.New()
	// The library also lists the narrower forms of a partial tile.
	tiles := []tlog.Tile{}
	for _, tile := range tlog.NewTiles(height, 0, size) {
		if last := len(tiles) - 1; last >= 0 && tiles[last].L == tile.L && tiles[last].N == tile.N {
			tiles[last] = tile
		} else {
			tiles = append(tiles, tile)
		}
	}
	for _, tile := range tiles {
		data, err := tlog.ReadTileData(tile, s)
		must(err)
		sum.Write(append([]byte(tilePath(tile)+"\n"), data...))
	}
	v.Tiles[name] = tileVector{len(tiles), tilePath(tiles[len(tiles)-1]), hex.EncodeToString(sum.Sum(nil))}
}

func signNote(v *vectors, s *store) {
	seed := sha256.Sum256([]byte("vector key"))
	key := ed25519.NewKeyFromSeed(seed[:])
	public := key.Public().(ed25519.PublicKey)
	v.PublicKey = hex.EncodeToString(public)
	sum := sha256.Sum256(append([]byte(v.Name+"\n\x01"), public...))
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", v.Name, binary.BigEndian.Uint32(sum[:]),
		base64.StdEncoding.EncodeToString(append([]byte{1}, key.Seed()...)))
	signer, err := note.NewSigner(skey)
	must(err)
	root, err := tlog.TreeHash(70000, s)
	must(err)
	text := fmt.Sprintf("%s\n%d\n%s\n", v.Name, 70000, root)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(err)
	v.Note = string(signed)
}

type folder string

func (f folder) Height() int { return height }
func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := [][]byte{}
	for _, tile := range tiles {
		data, err := os.ReadFile(filepath.Join(string(f), filepath.FromSlash(tilePath(tile))))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}
func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

func checkFolder(dir, name, keyHex string) {
	public, err := hex.DecodeString(keyHex)
	must(err)
	verifier, err := note.NewVerifier(vkey(name, public))
	must(err)
	signed, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	must(err)
	opened, err := note.Open(signed, note.VerifierList(verifier))
	must(err)
	lines := strings.Split(opened.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err)
	root, err := tlog.ParseHash(lines[2])
	must(err)
	tree := tlog.Tree{N: size, Hash: root}
	reader := tlog.TileHashReader(tree, folder(dir))
	for at := int64(0); at < size; {
		tile := tlog.Tile{H: height, L: -1, N: at >> height, W: int(min64(256, size-at))}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(strings.Replace(tilePath(tile), "tile/data", "tile/entries", 1))))
		must(err)
		for count := 0; count < tile.W; count++ {
			length := int(binary.BigEndian.Uint16(data))
			entry := data[2 : 2+length]
			data = data[2+length:]
			stored, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, at)})
			must(err)
			if stored[0] != tlog.RecordHash(entry) {
				must(fmt.Errorf("entry %d is not the one of its tile", at))
			}
			at++
		}
	}
	for at := int64(0); at < size; at += 1 + size/50 {
		proof, err := tlog.ProveRecord(size, at, reader)
		must(err)
		hashes, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, at)})
		must(err)
		must(tlog.CheckRecord(proof, size, root, at, hashes[0]))
	}
	fmt.Printf("%d entries, checked by golang.org/x/mod/sumdb\n", size)
}

func min64(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func vkey(name string, public []byte) string {
	sum := sha256.Sum256(append([]byte(name+"\n\x01"), public...))
	return fmt.Sprintf("%s+%08x+%s", name, binary.BigEndian.Uint32(sum[:]), base64.StdEncoding.EncodeToString(append([]byte{1}, public...)))
}

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "make":
		makeVectors(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "check":
		checkFolder(os.Args[2], os.Args[3], os.Args[4])
	default:
		fmt.Fprintln(os.Stderr, "usage: transparency-vectors make FILE | check DIR NAME KEYHEX")
		os.Exit(2)
	}
}
