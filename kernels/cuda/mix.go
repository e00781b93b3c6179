package cuda

import (
	"regexp"

	"github.com/kbisect/kbisect/kernels/lazy"
)

// Family is a group of instructions with their number in a kernel.
type Family struct {
	Name string
	N    int
}

// families groups opcodes; the first match counts.
var families = []struct {
	name string
	code func() *regexp.Regexp
}{
	{"tensor", opcodes(`[HIDQBO]G?MMA|UTC[A-Z]*MMA`)},
	{"local memory (spills)", opcodes(`LDL|STL`)},
	{"shared memory", opcodes(`LDS|STS|LDSM|STSM|ATOMS`)},
	{"asynchronous copies", opcodes(`LDGSTS|LDGDEPBAR|UTMA[A-Z]*|UBLKCP|SYNCS|ARRIVES`)},
	{"global memory", opcodes(`LDG|STG|LD|ST|RED|REDG|ATOM|ATOMG|CCTL|TEX|TLD|TLD4|SULD|SUST`)},
	{"constant memory", opcodes(`LDC|LDCU|ULDC`)},
	{"fp64", opcodes(`D(FMA|ADD|MUL|SETP|MNMX)`)},
	{"fp16 and bf16", opcodes(`H(FMA2|ADD2|MUL2|SETP2|SET2|MNMX2)|HFMA2_MMA|F2FP`)},
	{"fp32", opcodes(`F(FMA|ADD|MUL|FMA32I|ADD32I|MUL32I|SETP|SET|SEL|MNMX|CHK|SWZADD)|MUFU|FRND|RRO`)},
	{"conversion", opcodes(`[FI]2[FI]P?|I2FP|F2I`)},
	{"barrier", opcodes(`BAR|B2B|DEPBAR|MEMBAR|WARPSYNC|ERRBAR|FENCE|NANOSLEEP|WARPGROUP|ELECT`)},
	{"control", opcodes(`BRA|BRX|JMP|JMX|CALL|RET|EXIT|BSYNC|BSSY|BREAK|BPT|KILL|YIELD|BMOV|BRXU|ACQBULK`)},
	{"move", opcodes(`U?MOV|MOV32I|U?SEL|PRMT|UPRMT|SHFL|S2R|S2UR|CS2R|R2UR|R2P|P2R|VOTE|VOTEU|NOP`)},
	{"integer", opcodes(`U?(IADD|IADD3|IMAD|IMUL|LEA|LOP|LOP3|SHF|SHL|SHR|ISETP|IMNMX|VIMNMX|VIADD|IABS|POPC|FLO|BREV|BMSK|SGXT|PLOP3|PSETP|XMAD|IDP|VIADDMNMX|ISCADD)`)},
}

func opcodes(names string) func() *regexp.Regexp { return lazy.Pattern("^(" + names + ")$") }

// Mix counts the instructions of a kernel by family, in a fixed order. The last family holds
// all other instructions.
func Mix(f Function) []Family {
	out := make([]Family, 0, len(families)+1)
	for _, x := range families {
		out = append(out, Family{Name: x.name})
	}
	out = append(out, Family{Name: "other"})
	for code, n := range f.Histogram {
		at := len(families)
		for i, x := range families {
			if x.code().MatchString(code) {
				at = i
				break
			}
		}
		out[at].N += n
	}
	return out
}
