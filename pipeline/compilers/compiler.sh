#!/bin/sh
# Stands in front of a compiler on the PATH of a workspace. It adds a candidate's options, and keeps objects, and programs of
# one source; several are compiled one by one, and linked. Where a call, all that it reads, and the names of what it might
# find instead are those of an earlier one, what that wrote is copied. When in doubt the compiler runs as if it stood here.
set +e +f +u +x # a Makefile may export SHELLOPTS
real=@REAL@
@OPTIONS@
[ -n "$KBISECT_OBJECTS" ] || exec "$real" "$@"
objects=$KBISECT_OBJECTS toolkit=/usr/lib/ nvcc='' prepended='' appended=''

# elsewhere reports that a compiler may be the project's.
elsewhere() {
	case $1 in
	/usr/* | /opt/*) return 1 ;;
	*/*) ;;
	*) return 1 ;;
	esac
}
case $real in
*/nvcc)
	nvcc=yes prepended=$NVCC_PREPEND_FLAGS appended=$NVCC_APPEND_FLAGS
	unset KBISECT_OBJECTS # keeping what the host compiler gets is of no use: its names differ from call to call
	# It reads these besides nvcc.profile.
	[ -z "$INCLUDES$SYSTEM_INCLUDES$LIBRARIES$CUDAFE_FLAGS$PTXAS_FLAGS$NVVM_FLAGS$NVLINK_FLAGS$OCG_FLAGS$LLVMC_FLAGS" ] || exec "$real" "$@"
	case $prepended$appended in
	*-M* | *[\"\'\\]*) exec "$real" "$@" ;;
	esac
	elsewhere "$NVCC_CCBIN" && exec "$real" "$@"
	;;
esac
compiled=$objects/new.headers # there is such a file once a build has compiled headers, which no list names

# headers compiles some.
headers() {
	(: >"$compiled") 2>/dev/null
	exec "$real" "$@"
}

# known reports whether options that are passed on to other tools, with commas between, are known ones.
known() {
	IFS=,
	set -- $1
	unset IFS
	for a do
		case $a in
		*[!-A-Za-z0-9_.=+]*) return 1 ;; # more words
		-v | --verbose | --warn-* | -warn-* | -O? | -W* | -w | -fPIC | -fpic | -fopenmp | -fno-* | -ffast-math | -fvisibility=* | -m64 | -march=* | -pthread | -std=* | -g | -dlcm=*) ;;
		*) return 1 ;;
		esac
	done
}

nl='
'
# Workspaces lie at different paths. What a call names below the root is told by way of up, if it may be: then it is rooted.
rooted='' up='' is=''
case $KBISECT_ROOT in
'' | *[!-A-Za-z0-9/._+,]*) ;; # not for sed
*)
	case $PWD/ in
	"$KBISECT_ROOT"/*)
		up=. is=${PWD#"$KBISECT_ROOT"}
		while [ "$is" != "${is#*/}" ]; do
			up=$up/.. is=${is#*/}
		done
		[ "$up" -ef "$KBISECT_ROOT" ] || up='' # by a link
		;;
	esac
	;;
esac

# below sets is to a path as it is told.
below() {
	is=$1
	[ -z "$up" ] || case $is/ in
	"$KBISECT_ROOT"/*) is=$up${is#"$KBISECT_ROOT"} ;;
	esac
}

# Only options that are known: with others an object may depend on more files, or not be all that is written.
key="$real$nl$NVCC_CCBIN$nl$LIBRARY_PATH$nl$KBISECT_TREE$nl${PWD#"$KBISECT_ROOT"}"
src='' sources='' several='' out='' compile='' dep='' depfile='' target='' dirs='' next='' links='' language=''
set -f
for a in $prepended "$@" $appended; do
	case $a in
	"$KBISECT_PART") key="$key$nl+" ;; # its name means nothing
	*=*"$KBISECT_ROOT"*) key="$key$nl$a" ;; # a macro
	*"$KBISECT_ROOT"*)
		is=$a/
		while [ -n "$up" ] && [ "$is" != "${is#*"$KBISECT_ROOT"/}" ]; do
			is=${is%%"$KBISECT_ROOT"/*}@KBISECT_ROOT@/${is#*"$KBISECT_ROOT"/} rooted=yes
		done
		key="$key$nl$is"
		;;
	*) key="$key$nl$a" ;;
	esac
	case $next in
	out) out=$a next=''; continue ;;
	dep) depfile=$a next=''; continue ;;
	dir)
		below "$a"
		dirs=$dirs$nl$is next=''
		continue
		;;
	value) next=''; continue ;;
	host)
		elsewhere "$a" && exec "$real" "$@"
		next=''
		continue
		;;
	passed) known "$a" && next='' && continue || exec "$real" "$@" ;;
	language)
		language=$a
		case $nvcc$a in
		yescu) next=''; continue ;;
		*-header) headers "$@" ;;
		esac
		exec "$real" "$@"
		;;
	esac
	case $nvcc$a in
	yes-arch | yes-gencode | yes--gpu-architecture | yes--generate-code) next=value; continue ;;
	yes-arch=* | yes-gencode=* | yes--gpu-architecture=* | yes--generate-code=*) continue ;;
	yes-ccbin | yes--compiler-bindir) next=host; continue ;;
	yes-t | yes--threads | yes-diag-suppress | yes--diag-suppress) next=value; continue ;;
	yes-t=* | yes--threads=* | yes-diag-suppress=* | yes--diag-suppress=* | yes-lineinfo | yes--generate-line-info) continue ;;
	yes-use_fast_math | yes--use_fast_math | yes-expt-* | yes--expt-* | yes-extended-lambda | yes--extended-lambda) continue ;;
	yes-rdc=* | yes--std=* | yes-maxrregcount=* | yes--maxrregcount=* | yes--fmad=* | yes--ftz=* | yes--prec-*) continue ;;
	yes-G | yes-forward-unknown-to-host-compiler) continue ;;
	yes-dc) compile=yes language=device; continue ;;
	yes-Xptxas | yes-Xcompiler | yes--ptxas-options | yes--compiler-options) next=passed; continue ;;
	yes-Xptxas=* | yes-Xcompiler=* | yes--ptxas-options=* | yes--compiler-options=*) known "${a#*=}" && continue || exec "$real" "$@" ;;
	yes[-@]*.cu) exec "$real" "$@" ;;
	yes*.cu)
		several=$src src=$a sources=$sources$nl$a
		continue
		;;
	esac
	case $a in
	@* | *"$nl"*) exec "$real" "$@" ;;
	-c) compile=yes ;;
	-o) next=out ;;
	-MD | -MMD) dep=$a ;;
	-MF) next=dep ;;
	-MP) target=yes ;;
	-MT | -MQ) target=yes next=value ;;
	-I | -isystem | -iquote | -idirafter) next=dir ;;
	-I* | -isystem* | -iquote* | -idirafter*)
		dir=${a#-I} dir=${dir#-isystem} dir=${dir#-iquote}
		below "${dir#-idirafter}"
		dirs=$dirs$nl$is
		;;
	-L) next=value links=yes ;;
	-D | -U | -include | -isysroot) next=value ;;
	-lm | -lc | -ldl | -lrt | -lpthread | -lstdc++ | -lgomp | -lcu* | -lnv*) ;; # the system's
	-L* | -l* | -Wl,*) links=yes ;;
	-f*=*/* | -f*dump* | -f*list* | -fauto* | -fbasic* | -fbranch* | -fcallgraph* | -fcompare* | -fcoverage* | -fdiagnostics-format*) exec "$real" "$@" ;;
	-f*file=* | -fdevice-time* | -fdiagnostics-[as]* | -fembed* | -fmemory-profile* | -fproc-stat*) exec "$real" "$@" ;;
	-fmodule* | -fopt-info* | -fopt*record* | -fpch* | -fplugin* | -fprofile* | -fsave* | -fstack-usage | -fsyntax* | -ftest* | -fthin* | -ftime*) exec "$real" "$@" ;;
	-W*,* | -mllvm) exec "$real" "$@" ;;
	-D* | -U* | -f* | -m* | -O* | -W* | -w | -std=* | -ansi | -pedantic* | -pipe | -pthread | -nostd* | -stdlib=*) ;;
	-g | -g[0123] | -ggdb | -ggdb[0123] | -gdwarf-[2345] | -g[cs]olumn-info | -gline-tables-only) ;;
	-x) next=language ;;
	-x*-header | *.[hH] | *.hh | *.hpp | *.hxx) headers "$@" ;;
	-*) exec "$real" "$@" ;;
	*.c | *.cc | *.cpp | *.cxx | *.C)
		several=$src src=$a sources=$sources$nl$a
		;;
	*) exec "$real" "$@" ;;
	esac
done
set +f
[ -n "$src" ] && [ -z "$next" ] && [ ! -e "$compiled" ] && [ ! -d "$out" ] || exec "$real" "$@"
case $nvcc$dirs$nl in
*"$nl="* | yes*,*) exec "$real" "$@" ;; # below another folder, or several in one
esac
new=${KBISECT_ROOT%/*}
new=$objects/new.${new##*/}.$$ # others may be the same process in a namespace of their own

# one compiles one of several sources, into a file if one is named.
one() {
	into=$1 only=$2 skip=''
	shift 2
	for a do
		shift
		case $skip$a in
		yes*) skip=''; continue ;;
		-o | -L) skip=yes; continue ;;
		-c | -l* | -L* | -Wl,*) continue ;;
		esac
		case $sources$nl in
		*"$nl$a$nl"*) ;;
		*) set -- "$@" "$a" ;;
		esac
	done
	[ -z "$into" ] || set -- "$@" -o "$into"
	KBISECT_OBJECTS=$objects KBISECT_PART=$into "$0" "$@" -c "$only"
}
if [ -n "$several" ]; then
	case $compile$out in
	yes?*) language=one ;; # object for all
	esac
	[ -z "$dep$depfile$target$language" ] || exec "$real" "$@"
	IFS=$nl n=0 code=0
	set -f
	for file in ${sources#"$nl"}; do
		unset IFS
		n=$((n + 1)) into=$new.$n.o
		[ -z "$compile" ] || into=''
		one "$into" "$file" "$@" || {
			code=$?
			[ -z "$nvcc" ] || break
		}
	done
	if [ -z "$compile" ] && [ $code = 0 ]; then
		n=0
		for a do
			shift
			case $sources$nl in
			*"$nl$a$nl"*) n=$((n + 1)) a=$new.$n.o ;;
			esac
			set -- "$@" "$a"
		done
		"$real" "$@"
		code=$?
	fi
	set +f
	rm -f "$new".*.o
	exit $code
fi
[ -z "$CPATH$C_INCLUDE_PATH$CPLUS_INCLUDE_PATH$COMPILER_PATH$GCC_EXEC_PREFIX$CCC_OVERRIDE_OPTIONS$DEPENDENCIES_OUTPUT$SUNPRO_DEPENDENCIES" ] || exec "$real" "$@"
if [ -z "$out" ]; then
	out=${src##*/}
	out=${out%.*}.o
	[ -n "$compile" ] || out=a.out
fi
case $compile$out in
yes*.o | yes*.lo) ;;
yes* | /dev/*) exec "$real" "$@" ;;
*)
	case :$LIBRARY_PATH: in
	::) ;;
	*::* | *:[!/]* | *"$KBISECT_ROOT"*) links=yes ;;
	esac
	[ -z "$links$LD_RUN_PATH" ] || exec "$real" "$@" # libraries may be the build's
	;;
esac
case $dep in
-M*)
	[ -n "$compile$depfile" ] || exec "$real" "$@"
	[ -n "$depfile" ] || depfile=${out%.*}.d
	;;
*) [ -z "$depfile$target" ] || exec "$real" "$@" ;;
esac
# What else a text may depend on, or the assembler read; sources are looked through in keep.
case $depfile$nl$key in
- | -"$nl"* | /dev/[!s]* | /dev/std* | /proc/* | *.incbin* | *.include* | *__DATE__* | *__TIME__* | *__TIMESTAMP__* | *__has_include*) exec "$real" "$@" ;;
esac

# names lists headers where those of a call are looked for, which may come and go as the build writes them. It is called in
# a shell of its own.
names() {
	around=$dirs$nl
	for file do
		below "$file"
		case $is in
		*/*) dir=${is%/*} ;;
		*) dir=. ;;
		esac
		case $around in
		*"$nl$dir$nl"*) ;;
		*) around=$around$dir$nl ;;
		esac
	done
	IFS=$nl
	there
	for dir in $around; do
		case $dir in
		/usr/*) continue ;;
		esac
		printf '%s\n' "$dir"/*.[hi]* "$dir"/*.cuh "$dir"/*/*.[hi]* "$dir"/*/*.cuh
		for file do
			case ${file#"$dir"/} in
			/*) continue ;;
			*/*/*) others=$dirs ;; # deeper ones
			*.[hi]* | *.cuh) continue ;;
			*) others=$around ;;
			esac
			for other in $others; do
				[ ! -e "$other/${file#"$dir"/}" ] || printf '%s\n' "$other/${file#"$dir"/}"
			done
		done
	done
}

# there lists the headers that are there of those which texts ask for by name.
there() {
	for file in $asked; do
		for dir in $around; do
			[ ! -f "$dir/$file" ] || echo "$dir/$file"
		done
	done
}

# sum is of the call, the files, and those names.
sum() {
	{
		printf '%s\n' "$key"
		(names "$@")
		sha256sum -- "$@" 2>/dev/null </dev/null || {
			read -r only </proc/self/stat
			echo "$only" # equals no other
		}
	} | sha256sum
}

# What such calls have read is listed in files by the name of what they write, with the headers that were asked for: one
# for each set of names, of which there are a few where headers come and go.
below "$out"
asked='' name='' rest=${PWD#"$KBISECT_ROOT"}/$is
[ "$out" != "$KBISECT_PART" ] || rest=${PWD#"$KBISECT_ROOT"}/$src+
while [ "$rest" != "${rest#*/}" ]; do
	name=$name%${rest%%/*} rest=${rest#*/}
done
list=$objects/$name%$rest

# place has kept name what serves this root alone.
place() {
	of=$(echo "$KBISECT_ROOT" | cksum)
	kept=$kept.${of%% *}
}

# here reads a text that was kept, anywhere one that is to be: the root is where it is now.
here() {
	if [ -n "$rooted" ]; then
		sed "s|@KBISECT_ROOT@/|$KBISECT_ROOT/|g"
	else
		cat
	fi
}
anywhere() {
	if [ -n "$rooted" ]; then
		sed "s|$(echo "$KBISECT_ROOT" | sed 's/[.]/[.]/g')/|@KBISECT_ROOT@/|g"
	else
		cat
	fi
}

# lists names those lists, at most four, since each takes a look at all that it names.
lists() {
	set +f
	set -- "$list"%%*
	if [ $# -gt 4 ]; then
		ls -td -- "$@" | head -n 4
	else
		printf '%s\n' "$@"
	fi
}
IFS=$nl
set -f
for was in $(lists); do
	unset IFS
	set +f
	[ -f "$was" ] || continue
	was=$(
		set --
		while IFS= read -r file; do
			case $file in
			"?"*) asked=$asked$nl${file#?} ;;
			*) set -- "$@" "$file" ;;
			esac
		done <"$was"
		sum "$@"
	)
	was=${was%% *}
	kept=$objects/$was
	[ -z "$rooted" ] || [ -f "$kept.o" ] || place
	if [ -f "$kept.o" ]; then
		[ ! -e "$out" ] || rm -f "$out"
		if cp "$kept.o" "$out" 2>/dev/null && { [ -z "$depfile" ] || here 2>/dev/null <"$kept.d" >"$depfile"; }; then
			[ ! -f "$kept.err" ] || here <"$kept.err" >&2
			exit 0
		fi
		exec "$real" "$@"
	fi
done
unset IFS
set +f

# compile has it list all that it reads, system headers too: another header may be found under their names.
compile() {
	for a do
		shift
		[ "$a" != -MMD ] || a=-MD
		set -- "$@" "$a"
	done
	[ -n "$dep" ] || set -- "$@" -MD -MF "$new.d"
	exec "$real" "$@"
}

[ -w "$objects" ] && [ -d "$objects" ] || exec "$real" "$@"
(: >"$new") 2>/dev/null || exec "$real" "$@"
before=$(names "$src")
exec 9>&1 # make's jobs may use lower ones
err=$(compile "$@" 2>&1 >&9 9>&-)
code=$?
exec 9>&-
case $err in
*"$new"*) exec "$real" "$@" ;; # the list cannot be written
esac
[ -z "$err" ] || printf '%s\n' "$err" >&2
[ $code = 0 ] || {
	rm -f "$new" "$new.d"
	exit $code
}

# ask sets asked to the headers that texts, lines of the files, ask for. What asks for one is understood if it names it there.
ask() {
	! echo "$texts" | LC_ALL=C sed -e 's/__has_include[a-z_]* *( *["<][^"/>][^">]*[">]//g' -e 's/defined *(* *__has_include[a-z_]*//g' \
		-e 's/^ *# *ifn*def *__has_include[a-z_]*//' -e 's/^ *# *elifn*def *__has_include[a-z_]*//' | grep -q __has_include || return
	asked=$(echo "$texts" | LC_ALL=C grep -o '__has_include[a-z_]* *( *[<"][^>"]*' | sed 's/.*[<"]//' | sort -u)
	found=$(names "$@" >/dev/null; there)
	[ -z "$found" ] || [ -z "$(IFS=$nl && find $found -newercc "$new" 2>&1)" ]
}

# keep keeps what was written, by the files that the compiler lists.
keep() {
	[ ! -e "$compiled" ] || return
	set -f
	set --
	rule=''
	while IFS= read -r line; do
		if [ -z "$rule" ]; then
			case $line in
			*:*) rule=yes line=${line#*:} ;;
			*) continue ;; # more targets
			esac
		fi
		for file in ${line%\\}; do
			case $nvcc$file in
			"yes$KBISECT_ROOT"/*) ;;
			yes/*/cuda_runtime.h) toolkit=${file%cuda_runtime.h} ;;
			esac
			case $file in
			*:) ;;
			*[\\$]*) return ;;
			/usr/include/* | /usr/lib/* | "$toolkit"*) ;; # they do not change meanwhile
			*)
				is=$file
				[ -z "$rooted" ] || below "$file"
				set -- "$@" "$is"
				;;
			esac
		done
	done <"${depfile:-$new.d}"
	[ $# -gt 0 ] || return
	set +f
	texts=$(LC_ALL=C grep -h -e '\.incbin' -e '\.include' -e __DATE__ -e __TIME__ -e __TIMESTAMP__ -e __has_include -e __has_embed -- "$@")
	case $texts in
	'') ;;
	*.incbin* | *.include* | *__DATE__* | *__TIME__* | *__TIMESTAMP__* | *__has_embed*) return ;;
	*) ask "$@" || return ;;
	esac
	# Nothing may have come or changed while the compiler ran, and the object must be its own.
	[ "$before" = "$(names "$src")" ] && [ -z "$(find "$@" -newercc "$new" 2>&1)" ] && ! [ "$new" -nt "$out" ] || return
	case $(names "$@") in
	*.gch* | *.pch*) return ;;
	esac
	sum=$(sum "$@")
	sum=${sum%% *}
	[ ${#sum} = 64 ] || return
	kept=$objects/$sum
	case $rooted$key in # objects that hold the path serve this place alone
	yes*"$nl-flto"*) place ;;
	yes*) ! LC_ALL=C grep -qF -e "$KBISECT_ROOT" "$out" || place ;;
	esac
	if [ ! -f "$kept.o" ]; then
		[ -z "$depfile" ] || { anywhere <"$depfile" >"$new.x" && mv "$new.x" "$kept.d"; } || return
		[ -z "$err" ] || { printf '%s\n' "$err" | anywhere >"$new.x" && mv "$new.x" "$kept.err"; } || return
		cp "$out" "$new.o" && mv "$new.o" "$kept.o" || return
	fi
	(IFS=$nl && set -f && printf '%s\n' "$@" ${asked:+$(echo "$asked" | sed 's/^/?/')}) >"$new.x" || return
	sum=$(cksum <"$new.x")
	mv "$new.x" "$list%%${sum%% *}" # whole, for calls that read it meanwhile
}
keep 2>/dev/null
rm -f "$new" "$new".[dox]
exit 0
