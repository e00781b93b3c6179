#!/bin/sh
# Stands in front of a compiler on the PATH of a workspace. It adds a candidate's options, and keeps objects: where the
# preprocessed source and all other options are those of an earlier build, its object is copied.
real=@REAL@
objects=@OBJECTS@
@OPTIONS@
[ -n "$objects" ] && [ -n "$KBISECT_OBJECTS" ] || exec "$real" "$@"

# Only options that are known: with others an object may depend on more files, or not be all that is written.
key=$real src='' out='' compile='' dep='' depfile='' target='' next=''
for a do
	case $next in
	out) out=$a next=''; continue ;;
	value) next=''; continue ;;
	esac
	case $a in
	*"
"*) exec "$real" "$@" ;;
	-c) compile=yes ;;
	-o) next=out ;;
	-MD | -MMD) dep=yes ;;
	-MF) depfile=yes next=value ;;
	-MT | -MQ) target=yes next=value ;;
	-MP) ;;
	-I | -D | -U | -L | -include | -imacros | -isystem | -iquote | -idirafter | -isysroot) next=value ;;
	-I* | -D* | -U* | -isystem* | -iquote* | -idirafter*) ;; # the preprocessor's
	-L* | -l* | -Wl,*) ;;                                    # the linker's
	-f*=*/* | -f*dump* | -f*list* | -f*record* | -fauto* | -fbasic* | -fbranch* | -fcallgraph* | -fcompare* | -fcoverage*) exec "$real" "$@" ;;
	-fmodule* | -fopt-info* | -fpch* | -fplugin* | -fprofile* | -fsave* | -fstack-usage | -ftest* | -fthin* | -W*,* | -mllvm) exec "$real" "$@" ;;
	-f* | -m* | -O* | -W* | -w | -std=* | -ansi | -pedantic* | -pipe | -pthread | -nostd* | -stdlib=*) key="$key
$a" ;;
	-g | -g[012] | -ggdb | -ggdb[012] | -gdwarf-[2345] | -g[cs]olumn-info | -gline-tables-only) key="$key
$a" ;;
	-*) exec "$real" "$@" ;;
	*.c | *.cc | *.cpp | *.cxx | *.C)
		[ -z "$src" ] || exec "$real" "$@"
		src=$a
		;;
	*) exec "$real" "$@" ;;
	esac
done
[ -n "$compile" ] && [ -n "$src" ] && [ -z "$next$COMPILER_PATH$GCC_EXEC_PREFIX$CCC_OVERRIDE_OPTIONS" ] || exec "$real" "$@"
if [ -z "$out" ]; then
	out=${src##*/}
	out=${out%.*}.o
fi
case $out in
*.o | *.lo) ;;
*) exec "$real" "$@" ;;
esac

# preprocess writes the text to standard output, and the dependency file where one is wanted.
preprocess() {
	skip=''
	for a do
		shift
		if [ -n "$skip" ]; then
			skip=''
			continue
		fi
		case $a in
		-c) ;;
		-o) skip=yes ;;
		*) set -- "$@" "$a" ;;
		esac
	done
	[ -z "$dep" ] || [ -n "$depfile" ] || set -- "$@" -MF "${out%.*}.d"
	[ -z "$dep" ] || [ -n "$target" ] || set -- "$@" -MQ "$out"
	exec "$real" -E "$@"
}

# The assembler reads files, too, and headers may come compiled: such a text equals no other, nor does one that cannot be
# made. The same file of another workspace has another name where the text says what it comes from, but not in __FILE__.
read -r only </proc/self/stat
sum=$({
	printf '%s\n' "$key"
	(preprocess "$@") 2>/dev/null || echo "$only"
} | LC_ALL=C sed -e @HERE@ -e '/\.incbin/b only' -e '/\.include/b only' -e '/pch_preprocess/b only' -e '/# *embed/b only' -e b \
	-e ': only' -e "s|^|$only |" | sha256sum) 2>/dev/null
sum=${sum%% *}
[ ${#sum} = 64 ] || exec "$real" "$@"
kept=$objects/$sum
if [ -f "$kept.o" ]; then
	[ ! -e "$out" ] || rm -f "$out"
	cp "$kept.o" "$out" 2>/dev/null || exec "$real" "$@"
	[ ! -s "$kept.err" ] || cat "$kept.err" >&2
	exit 0
fi
new=$objects/new.$$
(: >"$new.err") 2>/dev/null || exec "$real" "$@"
"$real" "$@" 2>"$new.err"
code=$?
[ ! -s "$new.err" ] || cat "$new.err" >&2
if [ $code = 0 ] && cp "$out" "$new.o" 2>/dev/null && mv "$new.err" "$kept.err" && mv "$new.o" "$kept.o"; then
	exit 0
fi
rm -f "$new.err" "$new.o"
exit $code
