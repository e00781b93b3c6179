package cuda

import "regexp"

// Family is a sort of instructions, with their number in a kernel.
type Family struct {
	Name string
	N    int
}

// families sort opcodes; the first pattern that matches counts.
func families() []struct {
	name string
	code *regexp.Regexp
} {
	f := func(name, code string) struct {
		name string
		code *regexp.Regexp
	} {
		return struct {
			name string
			code *regexp.Regexp
		}{name, regexp.MustCompile("^(" + code + ")$")}
	}
	return []struct {
		name string
		code *regexp.Regexp
	}{
		f("tensor", `[HIDQBO]G?MMA|UTC[A-Z]*MMA`),
		f("local memory (spills)", `LDL|STL`),
		f("shared memory", `LDS|STS|LDSM|STSM|ATOMS`),
		f("asynchronous copies", `LDGSTS|LDGDEPBAR|UTMA[A-Z]*|UBLKCP|SYNCS|ARRIVES`),
		f("global memory", `LDG|STG|LD|ST|RED|REDG|ATOM|ATOMG|CCTL|TEX|TLD|TLD4|SULD|SUST`),
		f("constant memory", `LDC|LDCU|ULDC`),
		f("fp64", `D(FMA|ADD|MUL|SETP|MNMX)`),
		f("fp16 and bf16", `H(FMA2|ADD2|MUL2|SETP2|SET2|MNMX2)|HFMA2_MMA|F2FP`),
		f("fp32", `F(FMA|ADD|MUL|FMA32I|ADD32I|MUL32I|SETP|SET|SEL|MNMX|CHK|SWZADD)|MUFU|FRND|RRO`),
		f("conversion", `[FI]2[FI]P?|I2FP|F2I`),
		f("barrier", `BAR|B2B|DEPBAR|MEMBAR|WARPSYNC|ERRBAR|FENCE|NANOSLEEP|WARPGROUP|ELECT`),
		f("control", `BRA|BRX|JMP|JMX|CALL|RET|EXIT|BSYNC|BSSY|BREAK|BPT|KILL|YIELD|BMOV|BRXU|ACQBULK`),
		f("move", `U?MOV|MOV32I|U?SEL|PRMT|UPRMT|SHFL|S2R|S2UR|CS2R|R2UR|R2P|P2R|VOTE|VOTEU|NOP`),
		f("integer", `U?(IADD|IADD3|IMAD|IMUL|LEA|LOP|LOP3|SHF|SHL|SHR|ISETP|IMNMX|VIMNMX|VIADD|IABS|POPC|FLO|BREV|BMSK|SGXT|PLOP3|PSETP|XMAD|IDP|VIADDMNMX|ISCADD)`),
	}
}

// Mix counts the instructions of a kernel by family, in a fixed order; a last one holds the others.
func Mix(f Function) []Family {
	all := families()
	out := make([]Family, 0, len(all)+1)
	for _, x := range all {
		out = append(out, Family{Name: x.name})
	}
	out = append(out, Family{Name: "other"})
	for code, n := range f.Histogram {
		at := len(all)
		for i, x := range all {
			if x.code.MatchString(code) {
				at = i
				break
			}
		}
		out[at].N += n
	}
	return out
}
