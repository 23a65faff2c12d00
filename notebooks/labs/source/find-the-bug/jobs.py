"""The jobs of the lab "find the bug": run it, do not read it. The lab is to find what is wrong."""

import zlib
from base64 import b85decode

DATA = (
    b"c-pmBOLN;c5WeeI@J29YIkuBtIKxg|Kiae%Cle);gU7>xz?FoG1XuvHqo(=qT>yNElyvFT2ipMl@$GxLR<a86eBGEvL7oS^s--dk"
    b"6+#+nxD<M^wj@lJB`|l9&=u?Gmhe{tf`KPmH-Z@{OWi%!R2fc7|7!L%7n|<sTI~Jxj+=x@1xc->k*Ftu5-Jd;mvXZOwyPx<=4YxD"
    b"2Q@HOlx?{HjS{3PxS&R=L|IVU<OMKZfSQZ>;0bR1`w?k|>Rqz(%JMB0MLCFRF<i5ecTO{F^dj_@e5Tx>5ALP9=SrV3$H~x0T0(vT"
    b"$I`vdeDkZP8f0ptfK~~uc>>~@D=DmVdnxYqZg`k6GART`UaBD;eJ(6zqZq{94MN(T;kO3uM(}s<YEU*}u{$kmU^DKGqV+cUQ?7FN"
    b"U&sBMT>WCtGkV#I#4O!x6l})cXR<kBp9W)NqMefNFwdDADb{=w2lxC76t_^){b@-y?RydL?P0NCCDqy;UZ;yifIkJSvGTa!CeMk6"
    b"avcXY>^kkM>JbG$#lfpMc){pw(qM(f6$Rh_7(7S;sgq)VEOYYWb1Pp<6=Zm2h?5o_Qu%yLgMu?-#mBY~pOE3}w?jfBv3^Q0kOn2!"
    b"=CLJvd^#kP&tTQv(^A6(kA;j+?(bkRWji5XN+>okGCB<$7KbjikeroxHyFv+gT~=@ju$h%22l_vD>@)lfL%@m;qBYy&Gm=dyW4Oq"
    b"-QoziIPlYP_D}EsczbjG@ovtJU9%T43dn!N`|08Lhj*VJ!jl2VmRF%)T*QwC{L#MH_}RqiUFk!F4I>~H_*7~X07lgZWiiFH{B(13"
    b"w_JukvOi(-#>zAMKF(a{OjfnE(8bvW)aGwG71gVDxpW%MD2G;9ScBBVVnE{#B%bqq@Le|cQu0ho91J8nn&Tf;1LHb=L(aG0=yaWL"
    b"d=X-v$5;?<kff8rGA(;Nzv>#yP$82(&|nNml=Rx1o?b<KV*ZRpN9T(8;Hd&CUbei1zWj&y6h)2+!9Z&$^3@(ew1#W`H~5Pb>%^Su"
    b"WrOU0+5llX6^*i~Kuf;yBh04CfO6)AqbPd)qjYMCx<T7QZBOZZ{fGmGvsggcMi2vq@Knuwq%!A?Bc`!ZdL-zvRzi~ZmoxlRSgVQl"
    b"PHX1>M6*t5+luuV>kY_xflR&$^xo^8eOM`TgckM;?U-~`O12}>yx`8{3YHu%=(tH7I<3ZX8&};AWVCFION`+RHjsA<K$md1RHXfS"
    b";pC4uk6AOaDz1p-ipE+m|9`C)bFEio%oTaIsY5QNL_IbHCC<CmQdM*ZM9>Pl8H`&}F<LdcRm=0P8ru%S&?T9r^fSWpFMPP$1uC2E"
    b"P6Yo0h4IcSomn(-P~q58``m05=&dZ<D$OqNg?_>LAy}gnmU?#OlL{AD6g=Bm9sJmSZBPsnt}9h`=|zmMu59IWkg^VFj4{COuS_;<"
    b"cI0&&TwYvUL|&_sFV-GZp4gQy*KX@2(>0hpehqP`pp9V~gf#s2WSfX#+uRDsE~7YTc#(zn6ne>SA<o(i3uR-%$U4?J8NF<_Tos}B"
    b"u+M!@v*_j=nmr;Mr4_1h+jedwv430D1GkkqPD6?xLe@yn31;j$a&@3g0|uspbs0^CBs<t+97*SkXxPMw$lMN2q9{Q;By=Zq#(AuM"
    b"o%U|hWb$>Fo%*c9e3<pWto<M*ZVzwgYu34YZD(Q_^{v1A;yU1ZGv#XC(dCLSXqzkjM+^4y7jCw>vxB(b(Z65B9ew"
)
exec(zlib.decompress(b85decode(DATA)))
