"""The jobs of the lab "find the bug": run it, do not read it. The lab is to find what is wrong."""

import zlib
from base64 import b85decode

DATA = (
    b"c-pmBOLN;c5WeeI@J29YIkuBtIKxg|Kiae%Cle);gU7>xz?FoG1XuvHqo(=qT>yNElyvFT2ipMl@$GxLR<a86eBGEvL7oS^s--dk"
    b"6+#+nxD<M^wj@lJB`|l9&=u?Gmhe{tf`KPmH-Z@{OWi%!R2fc7|7!L%7n|<sTI~Jxj+=x@1xc->k*Ftu5-Jd;mvXZOwyPx<=4YxD"
    b"2Q@HOlx?{HjS{3PxS&R=L|IVU<OMKZfSQZ>;0bR1`w?k|>Rqz(%JMB0MLCFRF<i5ecTO{F^dj_@e5Tx>5ALP9=SrV3$H~x0T0(vT"
    b"$I`vdeDkZP8f0ptfK~~uc>>~@D=DmVdnxYqZg`k6GART`UaBD;eJ(6zqZq{94MN(T;kO3uM(}s<YEU*}u{$kmU^DKGqV+cUQ?7FN"
    b"U&sBMT>WCtGkV#I?7=eG95G6Rv4PM|a(9>~%8e9jzKMf-{soF#DCz#RB%ABKi1+reSg?|6?GCTg#Uj9;0@he=TyT@;L_@ib0~>3d"
    b"_NDZQf}i5xRUEuvNH%G(!itK5?|%#)q=3{(u|JkMdGQIAucZnyyfVZ|iw>!L5~e}HnX%$yTYXQ+@b%jvp^;cLB^XG9l56wWl07~h"
    b"lF4VV>h5W&VS>j(#wYi8u$Z!)kS`?^8yFd#1`dlums&{9O1vA4<m*A>a689~>0N^;h?5l^5GugdCW7$x?egaO!|mN|IF@d41Y8{W"
    b"={WnR_kX;-x&C-JXUA6Aix>suKjQuL@cYBN&ky0rfMcJl&@V3HM+5$7Uu^tr;`FZcA;K;Z5DR=NH3|Tu>VvYFVp@K>xw%^|Lm%0n"
    b"uw!GnnSCE;u5%`<+FI!1>;h`@H=T;=Rl8g|jb@ZXD=e%*>R~aUaR(C5`9AnA8+$2vrX@}T5*^L)kE(%j9ls&x`)+i)&NsdYG0$Tx"
    b"2sb^_$uyakJ)U264Q8m2Ngrr11|&*)ZB9?GB0e#6#-gKhMSSp70TnM>UP52~Lwt%N$An;@H5B=3k04sZHUAs@MT&J|PW7@u_CIZa"
    b"FrA7<*;Jq<-}t#@Q)NIo^TJUSz5Y=;wM5-?ZK1ZObiQ-M0mA_-pll<EfkJqyW<FAx^TrX=SSdXc^jIq)$@|M0{wb{0M0=+-^M9gQ"
    b"r?hRwdW`i3<h(#8-voN^_0B%5lsQ5RdxmyQx+*2xk!W6UXL1Egju&*?Bo3WcW4Vp1?guj3Fvcaua0VO5yQ$wL9BvY6zf(B*<8@=!"
    b"jI4?)V!5KR*3182>&0B_6&Z6yo^9%oiz!i$4MB<XZnabu-2oA_f^G)mmQ;*Zjc&j4ysO5xgD`YSW-0xQu>1=j?skF7X1f!?|3G29"
    b"^GatHO&nA>w$wg1TLpS6%eG3h3w)tpaDE8ZD21h-UHPQKtrZ2&7F7p7wx1XjgM{l!m0fxf<EtxMIUS^|0~%utu=^{M4VxW#9S4^e"
    b"7Z;J&s^p8c2bCvw<;%5Ob;)%1C68Z294csIm<AyYzdhL|V%Rpf0<y~}4jNu$p*@9OvfF~QHp4>Mm@u-AbxuYvn=MyG=soOn-_tC*"
    b"IfrJC2uEp!D%^^l8%gZnR`tMbWscL3;@6Kg(sP0tdyZTkDARy}>0n((Qz6L?_83Rf`2rj9W~0E4A|f)kgOeyq5Dy9637v5st6!(R"
    b"n>3kx(q*T<<uD&+{V!|3LW$eM+xePx?q1uO7)E{T?>@5*xZX^;T6c80;tSg5O8=#Tz5IonZSL$K?sxPrZpRrm"
)
exec(zlib.decompress(b85decode(DATA)))
