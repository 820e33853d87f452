package pdf

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// crypt decrypts the strings and streams of a file that opens without a password,
// as files do whose author only restricted printing or changing them.
type crypt struct {
	key     []byte
	aes     bool
	plain   bool // streams and strings are not encrypted
	whole   bool // the key is used as it is, as AES-256 does
	keepXMP bool
}

var padding = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// openCrypt reads the encryption dictionary, if there is one.
func (f *file) openCrypt() {
	if f.trailer["Encrypt"] == nil || f.crypt != nil {
		return
	}
	d := f.dict(f.trailer["Encrypt"])
	if d == nil {
		return
	}
	version, revision := f.integer(d["V"], 0), f.integer(d["R"], 0)
	c := &crypt{keepXMP: f.resolve(d["EncryptMetadata"]) == false}
	length := f.integer(d["Length"], 40) / 8
	if version >= 4 {
		filter, _ := f.resolve(d["StmF"]).(name)
		method := f.resolve(f.dict(f.dict(d["CF"])[filter])["CFM"])
		c.aes = method == name("AESV2") || method == name("AESV3")
		c.plain = filter == "" || filter == "Identity"
		length = 16
	}
	if version == 1 {
		length = 5
	}
	if f.resolve(d["Filter"]) != name("Standard") || length < 5 || length > 32 {
		f.limits.fail("it is encrypted in a way that is not known")
	}
	owner, user := f.text(d["O"]), f.text(d["U"])
	if version >= 5 {
		c.whole, c.key = true, newKey(user, f.text(d["UE"]), revision)
	} else {
		id := ""
		if ids := f.array(f.trailer["ID"]); len(ids) > 0 {
			id = f.text(ids[0])
		}
		c.key = oldKey(owner, id, uint32(f.integer(d["P"], 0)), length, revision, c.keepXMP)
		if !opens(c.key, user, id, revision) {
			c.key = nil
		}
	}
	if c.key == nil {
		f.limits.fail("it needs a password")
	}
	f.crypt = c
	f.cache, f.packs = map[int]any{}, map[int]*pack{} // read before the key was known
	if r, ok := f.trailer["Encrypt"].(ref); ok {
		f.cache[r.num] = d
	}
}

func (f *file) text(v any) string {
	s, _ := f.resolve(v).(str)
	return string(s)
}

// oldKey returns the key of the empty password, for revisions 2 to 4.
func oldKey(owner, id string, permissions uint32, length, revision int, keepXMP bool) []byte {
	h := md5.New()
	h.Write(padding)
	h.Write([]byte(owner[:min(32, len(owner))]))
	h.Write(binary.LittleEndian.AppendUint32(nil, permissions))
	h.Write([]byte(id))
	if revision >= 4 && keepXMP {
		h.Write([]byte{255, 255, 255, 255})
	}
	key := h.Sum(nil)
	length = min(length, 16)
	if revision >= 3 {
		for range 50 {
			sum := md5.Sum(key[:length])
			key = sum[:]
		}
	}
	return key[:length]
}

// opens reports whether a key is the one of the file.
func opens(key []byte, user, id string, revision int) bool {
	want := []byte(nil)
	if revision < 3 {
		want = rc4ed(key, padding)
	} else {
		sum := md5.Sum(append(append([]byte{}, padding...), id...))
		want = sum[:]
		for i := range 20 {
			step := make([]byte, len(key))
			for j := range key {
				step[j] = key[j] ^ byte(i)
			}
			want = rc4ed(step, want)
		}
	}
	return len(user) >= len(want) && user[:len(want)] == string(want)
}

// newKey returns the key of the empty password, for revisions 5 and 6.
func newKey(user, wrapped string, revision int) []byte {
	if len(user) < 48 || len(wrapped) < 32 {
		return nil
	}
	hash := func(salt string) []byte {
		sum := sha256.Sum256([]byte(salt))
		if revision == 5 {
			return sum[:]
		}
		return hardened(sum[:])
	}
	if string(hash(user[32:40])) != user[:32] {
		return nil
	}
	b, err := aes.NewCipher(hash(user[40:48]))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(b, make([]byte, 16)).CryptBlocks(key, []byte(wrapped[:32]))
	return key
}

// hardened is the hash of revision 6, for the empty password.
func hardened(k []byte) []byte {
	for round := 0; ; round++ {
		one := make([]byte, 0, 64*len(k))
		for range 64 {
			one = append(one, k...)
		}
		b, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(b, k[16:32]).CryptBlocks(one, one)
		sum := 0
		for _, c := range one[:16] {
			sum += int(c)
		}
		switch sum % 3 {
		case 0:
			h := sha256.Sum256(one)
			k = h[:]
		case 1:
			h := sha512.Sum384(one)
			k = h[:]
		default:
			h := sha512.Sum512(one)
			k = h[:]
		}
		if round >= 63 && int(one[len(one)-1]) <= round-31 {
			return k[:32]
		}
	}
}

func rc4ed(key, data []byte) []byte {
	out := make([]byte, len(data))
	if c, err := rc4.NewCipher(key); err == nil {
		c.XORKeyStream(out, data)
	}
	return out
}

// text decrypts a string of an object.
func (c *crypt) text(id ref, s str) str {
	if c.plain {
		return s
	}
	return str(c.decrypt(id, []byte(s)))
}

// stream decrypts the bytes of a stream.
func (c *crypt) stream(id ref, d dict, data []byte) []byte {
	if c.plain || d["Type"] == name("XRef") || c.keepXMP && d["Type"] == name("Metadata") {
		return data
	}
	return c.decrypt(id, data)
}

func (c *crypt) decrypt(id ref, data []byte) []byte {
	key := c.key
	if !c.whole {
		h := md5.New()
		h.Write(c.key)
		h.Write([]byte{byte(id.num), byte(id.num >> 8), byte(id.num >> 16), byte(id.gen), byte(id.gen >> 8)})
		if c.aes {
			h.Write([]byte("sAlT"))
		}
		key = h.Sum(nil)[:min(len(c.key)+5, 16)]
	}
	if !c.aes {
		return rc4ed(key, data)
	}
	b, err := aes.NewCipher(key)
	if err != nil || len(data) < 32 {
		return nil
	}
	body := data[16 : len(data)-len(data)%16]
	out := make([]byte, len(body))
	cipher.NewCBCDecrypter(b, data[:16]).CryptBlocks(out, body)
	if n := int(out[len(out)-1]); n >= 1 && n <= 16 {
		out = out[:len(out)-n]
	}
	return out
}
