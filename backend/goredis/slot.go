package goredis

import "strings"

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
func slotOf(key string) int {
	if start := strings.IndexByte(key, '{'); start >= 0 {
		if end := strings.IndexByte(key[start+1:], '}'); end > 0 {
			key = key[start+1 : start+1+end]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc) % slots
}
