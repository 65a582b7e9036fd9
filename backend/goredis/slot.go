package goredis

// slots is how many slots a Redis cluster has.
const slots = 16384

// crcTable is that of CRC-16/XMODEM, which Redis spreads keys by.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// slotOf returns the slot of a key: that of its hash tag, which every key of
// this package has.
func slotOf[K string | []byte](key K) int {
	first, last := 0, len(key)
	if start := indexByte(key, 0, '{'); start >= 0 {
		if end := indexByte(key, start+1, '}'); end > start+1 {
			first, last = start+1, end
		}
	}
	crc := uint16(0)
	for i := first; i < last; i++ {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc) % slots
}

// indexByte returns where a byte first is in key from some place on, or -1.
func indexByte[K string | []byte](key K, from int, c byte) int {
	for i := from; i < len(key); i++ {
		if key[i] == c {
			return i
		}
	}
	return -1
}
